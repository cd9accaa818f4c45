#include "generate/decisions.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/softmax.hpp"
#include "transformer/safetensors.hpp"

namespace multidraft::examples {
namespace {

/// Layers `name.0`, `name.1`, .. of the given widths, inputs first.
perceptron load_layers(std::filesystem::path const& directory, std::string const& name,
                       std::vector<std::int32_t> const& widths) {
    tensor_store const tensors = tensor_store::open(directory);
    std::vector<dense_layer> layers;
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
        dense_layer layer{widths[l], widths[l + 1], {}, {}};
        layer.weights.resize(static_cast<std::size_t>(layer.inputs) * static_cast<std::size_t>(layer.outputs));
        layer.bias.resize(static_cast<std::size_t>(layer.outputs));
        std::string const prefix = name + "." + std::to_string(l);
        tensors.get(prefix + ".weight", {layer.outputs, layer.inputs}).read(0, layer.weights);
        tensors.get(prefix + ".bias", {layer.outputs}).read(0, layer.bias);
        layers.push_back(std::move(layer));
    }
    return perceptron(std::move(layers));
}

template <class Numbers>
void write_list(std::ostream& out, char const* key, Numbers const& numbers) {
    out << '"' << key << "\": [";
    for (std::size_t i = 0; i < numbers.size(); ++i) out << (i == 0 ? "" : ", ") << numbers[i];
    out << "], ";
}

}  // namespace

probability_stop load_probability_stop(std::filesystem::path const& directory, double threshold) {
    return probability_stop(load_layers(directory, "t2", {t2_inputs, t2_width, 1}), threshold);
}

hidden_state_stop load_hidden_state_stop(std::filesystem::path const& directory, std::int32_t hidden_size,
                                         double threshold) {
    return hidden_state_stop(load_layers(directory, "t1", {hidden_size, t1_width, t1_second_width, 1}), threshold);
}

void write_decisions(transformer& target, transformer& draft, std::span<token_id const> prompt,
                     generation_options const& options, std::ostream& out) {
    generation const text = autoregressive(target, prompt, options);
    std::vector<token_id> whole(prompt.begin(), prompt.end());
    whole.insert(whole.end(), text.tokens.begin(), text.tokens.end());
    auto const vocabulary = static_cast<std::size_t>(target.vocabulary());
    // The last prompt token and all emitted ones but the last are followed by a token that the target emitted.
    std::size_t const rows = std::min(text.tokens.size(), whole.size() - 1);
    std::vector<float> p_logits(rows * vocabulary);
    std::vector<float> q_logits(rows * vocabulary);
    std::vector<std::int32_t> positions;
    target.keep(0, {});
    draft.keep(0, {});
    std::span<token_id const> const context = std::span<token_id const>(whole).first(whole.size() - 1);
    catch_up(target, context, positions, std::span<float>(p_logits));
    catch_up(draft, context, positions, std::span<float>(q_logits));
    auto const width = static_cast<std::size_t>(draft.hidden_size());
    std::span<float const> const hidden = draft.hidden_states();
    host_group const g;
    addressed_source source{addressed_uniforms(options.seed, options.request)};
    std::vector<float> features(static_cast<std::size_t>(t2_inputs));
    for (std::size_t i = 0; i < rows; ++i) {
        auto const view = [&](std::vector<float> const& logits) {
            return row_view<float>(logits.data() + static_cast<std::ptrdiff_t>(i * vocabulary), target.vocabulary());
        };
        auto const p = process_logits(g, view(p_logits), options.sampling).row;
        auto const q = process_logits(g, view(q_logits), options.draft_sampling.value_or(options.sampling));
        draw_site const site{static_cast<std::int32_t>(i), 1};
        token_id const x = source.categorical(g, q.sums, q.row.size(), weight_of{q.row}, {}, site(purpose::test, 0));
        bool const accepted = source.bernoulli(site(purpose::test, 1), p(x), q.row(x));
        probability_stop::read(g, q.row, std::span<float>(features));
        out << "{";
        write_list(out, "top", std::span<float const>(features).first(features.size() - 1));
        out << "\"entropy\": " << features.back() << ", ";
        write_list(out, "hidden", hidden.subspan(i * width, width));
        out << "\"ratio\": " << std::min(1.0F, p(x) / q.row(x)) << ", \"accepted\": " << (accepted ? 1 : 0) << "}\n";
    }
}

}  // namespace multidraft::examples
