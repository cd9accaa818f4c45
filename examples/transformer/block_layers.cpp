#include "transformer/block_layers.hpp"

#include <algorithm>
#include <cstring>

#include "transformer/kernels.hpp"

namespace multidraft::examples {
namespace {

std::size_t size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

std::size_t rows_of(std::int32_t width) noexcept { return drafter_products::rows_of(width); }

}  // namespace

block_layers::block_layers(block_drafter_weights::implementation const& weights)
    : w(weights),
      products({w.projection.get(), w.layers.front().queries.get(), w.layers.front().keys_values.get(),
                w.layers.front().out.get(), w.layers.front().gate_up.get(), w.layers.front().down.get(), w.head,
                w.of_entries.get()},  // all layers are of one size
               w.threads, w.chooses_threads),
      residual_(rows_of(w.sizes.hidden)),
      normed_(rows_of(w.sizes.hidden)),
      update_(rows_of(w.sizes.hidden)),
      queries_(rows_of(w.query_width())),
      keys_values_(rows_of(2 * w.kv_width())),
      attention_(rows_of(w.query_width())),
      gate_up_(rows_of(2 * w.sizes.intermediate)),
      activation_(rows_of(w.sizes.intermediate)),
      features_(rows_of(w.feature_size())),
      parents_(rows_of(w.config.markov_rank)),
      terms_(w.of_parent == nullptr ? 0 : rows_of(w.config.draft_vocabulary)),
      scores_per_thread_(kernels::attention_scratch(w.capacity, w.sizes.head_dim)),
      scores_(scores_per_thread_ * size(w.threads)) {}

void block_layers::project(float const* features, std::int32_t count, float* out) {
    std::size_t const hidden = size(w.sizes.hidden);
    products.multiply(*w.projection, features, count, update_.data());
    for (std::size_t r = 0; r < size(count); ++r)
        kernels::norm(update_.data() + r * hidden, nullptr, w.projection_norm.data(), w.sizes.hidden,
                      w.sizes.rms_norm_eps, out + r * hidden);
}

void block_layers::place_heads(float* head, std::int32_t heads, std::vector<float> const& norm,
                               std::int32_t position) const {
    std::int32_t const dim = w.sizes.head_dim;
    for (std::int32_t h = 0; h < heads; ++h, head += dim) {
        kernels::norm(head, nullptr, norm.data(), dim, w.config.head_norm_eps, head);
        kernels::rotate(head, w.angles.cosines(position), w.angles.sines(position), dim / 2);
    }
}

void block_layers::write_entries(std::int32_t layer, float const* rows, std::span<place const> places) {
    auto const& its = w.layers[size(layer)];
    products.multiply(*its.keys_values, rows, static_cast<std::int32_t>(places.size()), keys_values_.data());
    for (std::size_t r = 0; r < places.size(); ++r) {
        float* const keys = keys_values_.data() + r * size(2 * w.kv_width());
        place_heads(keys, w.sizes.kv_heads, its.key_norm, places[r].position);
        for (std::int32_t h = 0; h < w.sizes.kv_heads; ++h) {
            float const* const key = keys + size(h) * size(w.sizes.head_dim);
            places[r].text->cache.write(layer, h, places[r].position, key, key + w.kv_width());
        }
    }
}

void block_layers::observe(block_text& text, std::span<float const> features) {
    std::size_t const width = size(w.feature_size());
    auto const count = static_cast<std::int32_t>(features.size() / width);
    auto const kept = features.first(size(std::clamp(w.context_limit - text.observed, 0, count)) * width);
    text.observed += count;
    text.pending.insert(text.pending.end(), kept.begin(), kept.end());
    if (text.pending.size() < size(block_rows) * width) return;
    block_text* const one = &text;
    take_in({&one, 1});  // of a prompt, so that they take no memory
    std::vector<float>().swap(text.pending);
}

void block_layers::take_in(std::span<block_text* const> texts) {
    std::size_t const width = size(w.feature_size());
    places_.clear();
    for (block_text* const text : texts) {
        for (std::size_t r = 0; r < text->pending.size() / width; ++r) {
            if (places_.size() == size(block_rows)) take_in_rows();
            std::copy_n(text->pending.data() + r * width, width, features_.data() + places_.size() * width);
            places_.push_back({text, text->length++});
        }
        text->pending.clear();
    }
    take_in_rows();
}

void block_layers::take_in_rows() {
    if (places_.empty()) return;
    products.timed(0, [&] {
        project(features_.data(), static_cast<std::int32_t>(places_.size()), normed_.data());
        for (std::int32_t l = 0; l < w.sizes.layers; ++l) write_entries(l, normed_.data(), places_);
    });
    places_.clear();
}

void block_layers::blocks(std::span<anchor const> anchors, std::int32_t wanted, float* logits) {
    shown.clear();
    std::size_t const most = std::max<std::size_t>(1, size(block_rows) / size(w.config.slots));
    while (!anchors.empty()) {
        auto const some = anchors.first(std::min(most, anchors.size()));
        products.timed(1, [&] { some_blocks(some, wanted, logits); });
        shown.insert(shown.end(), normed_.data(), normed_.data() + some.size() * size(wanted) * size(w.sizes.hidden));
        logits += some.size() * size(wanted) * size(w.config.draft_vocabulary);
        anchors = anchors.subspan(some.size());
    }
}

void block_layers::some_blocks(std::span<anchor const> anchors, std::int32_t wanted, float* logits) {
    model_config const& c = w.sizes;
    std::size_t const hidden = size(c.hidden);
    std::int32_t const slots = w.config.slots;
    std::int32_t const predicts = w.config.first_slot;
    auto const blocks = static_cast<std::int32_t>(anchors.size());
    places_.clear();
    for (auto const& [text, token] : anchors) {
        float* const rows = residual_.data() + places_.size() * hidden;
        w.embedding->read(size(token) * hidden, {rows, hidden});
        for (std::int32_t k = 1; k < slots; ++k) std::copy_n(w.mask.data(), hidden, rows + size(k) * hidden);
        for (std::int32_t k = 0; k < slots; ++k) places_.push_back({text, text->length + k});
    }

    float const* pending = nullptr;  // the preceding layer's contribution to the residual
    auto const normalise = [&](std::vector<float> const& scale, std::int32_t count) {
        for (std::size_t r = 0; r < size(count); ++r)
            kernels::norm(residual_.data() + r * hidden, pending == nullptr ? nullptr : pending + r * hidden,
                          scale.data(), c.hidden, c.rms_norm_eps, normed_.data() + r * hidden);
        pending = update_.data();
    };
    // Of each block the rows that are wanted.
    auto const narrow = [&](aligned_array<float>& of) {
        for (std::int32_t b = 0; b < blocks; ++b)
            std::memmove(of.data() + size(b * wanted) * hidden, of.data() + size(b * slots + predicts) * hidden,
                         size(wanted) * hidden * sizeof(float));
    };
    std::int32_t const group = c.heads / c.kv_heads;
    for (std::int32_t l = 0; l < c.layers; ++l) {
        auto const& layer = w.layers[size(l)];
        normalise(layer.attention_norm, blocks * slots);
        write_entries(l, normed_.data(), places_);
        // After the last layer's entries only the rows that are wanted go on.
        bool const last = l + 1 == c.layers;
        std::int32_t const each = last ? wanted : slots;
        std::int32_t const from = last ? predicts : 0;
        std::int32_t const left = blocks * each;
        if (left < blocks * slots) {
            narrow(normed_);
            narrow(residual_);
        }
        products.multiply(*layer.queries, normed_.data(), left, queries_.data());
        for (std::int32_t r = 0; r < left; ++r)
            place_heads(queries_.data() + size(r) * size(w.query_width()), c.heads, layer.query_norm,
                        anchors[size(r / each)].text->length + from + r % each);
        groups_.set(left, group, c.kv_heads, products.threads(),
                    [&](std::int32_t r) { return r / each == (r - 1) / each; });
        auto const attend = [&](std::int32_t begin, std::int32_t end, int thread) {
            for (std::int32_t i = begin; i < end; ++i) {
                auto const unit = groups_.unit_at(i);
                std::int32_t const g = unit.group;
                std::int32_t const h = unit.head;
                block_text const& text = *anchors[size(groups_.of(g).first / each)].text;
                // Every slot attends to the text and to all slots.
                kernels::run const attended{0, text.length + slots};
                groups_.attend(
                    g, text.cache.view(l, h), group, scores_.data() + size(thread) * scores_per_thread_,
                    [&](std::int32_t r) {
                        std::size_t const at = size(r) * size(w.query_width()) + size(h * group) * size(c.head_dim);
                        return kernels::token_attention{queries_.data() + at, attention_.data() + at, &attended, 1};
                    });
            }
        };
        std::int64_t entries = 0;
        for (anchor const& a : anchors) entries += a.text->length + slots;
        // Other threads only for at least about 10 us of work.
        bool const long_work = each * entries * w.query_width() > 40'000;
        products.run(groups_.size() * c.kv_heads, long_work, attend);
        products.multiply(*layer.out, attention_.data(), left, update_.data());
        normalise(layer.mlp_norm, left);
        products.multiply(*layer.gate_up, normed_.data(), left, gate_up_.data());
        for (std::size_t r = 0; r < size(left); ++r)
            kernels::gated(gate_up_.data() + r * 2 * size(c.intermediate), c.intermediate,
                           activation_.data() + r * size(c.intermediate));
        products.multiply(*layer.down, activation_.data(), left, update_.data());
    }
    normalise(w.final_norm, blocks * wanted);
    products.multiply(*w.head, normed_.data(), blocks * wanted, logits);
}

template <class Use>
void block_layers::parent_terms(std::span<token_id const> parents, Use const& use) {
    if (w.of_parent == nullptr) return;
    auto const own = size(w.config.draft_vocabulary);
    std::size_t const rank = size(w.config.markov_rank);
    for (std::size_t first = 0; first < parents.size(); first += size(block_rows)) {
        with_term_.clear();
        for (std::size_t k = first; k < std::min(parents.size(), first + size(block_rows)); ++k) {
            std::int32_t const number = w.vocabulary.number_of(parents[k]);
            if (number == none) continue;
            w.of_parent->read(size(number) * rank, {parents_.data() + with_term_.size() * rank, rank});
            with_term_.push_back(k);
        }
        if (with_term_.empty()) continue;
        products.in_threads(1, [&] {
            products.multiply(*w.of_entries, parents_.data(), static_cast<std::int32_t>(with_term_.size()),
                              terms_.data());
        });
        for (std::size_t i = 0; i < with_term_.size(); ++i) use(with_term_[i], terms_.data() + i * own);
    }
}

void block_layers::add_own_parent_terms(std::span<token_id const> parents, float* rows) {
    auto const own = size(w.config.draft_vocabulary);
    parent_terms(parents, [&](std::size_t k, float const* term) { kernels::add(term, own, rows + k * own); });
}

void block_layers::add_parent_terms(std::span<token_id const> parents, float* rows) {
    if (w.vocabulary.is_whole()) return add_own_parent_terms(parents, rows);
    auto const v = size(w.sizes.vocabulary);
    auto const tokens = w.vocabulary.tokens();
    parent_terms(parents, [&](std::size_t k, float const* term) {
        float* const row = rows + k * v;
        for (std::size_t x = 0; x < tokens.size(); ++x) row[size(tokens[x])] += term[x];
    });
}

}  // namespace multidraft::examples
