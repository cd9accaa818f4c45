#include "llama_cpp/cached_text.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "multidraft/base/error.hpp"
#include "multidraft/tree/compaction.hpp"

namespace multidraft::examples {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace

cached_text::cached_text(shared_context& context) : context_(&context), main_(context.take()) {
    held_.push_back(main_);
}

std::int32_t cached_text::position_of(std::int32_t entry) const {
    if (entry < trunk_) return entry;
    std::int32_t const behind = entry - trunk_;
    auto const old = static_cast<std::int32_t>(nodes_.size());
    return behind < old ? nodes_[at(behind)].position : batch_[at(behind - old)].position;
}

llama_seq_id cached_text::sequence_of(std::int32_t entry) const {
    return entry < trunk_ ? main_ : nodes_[at(entry - trunk_)].sequence;
}

std::int32_t cached_text::parent_of(std::int32_t entry) const {
    if (entry < trunk_) return entry - 1;
    std::int32_t const behind = entry - trunk_;
    auto const old = static_cast<std::int32_t>(nodes_.size());
    return behind < old ? nodes_[at(behind)].parent : batch_[at(behind - old)].parent;
}

std::int32_t cached_text::add(std::int32_t parent) {
    std::int32_t const position = parent < 0 ? 0 : position_of(parent) + 1;
    batch_.push_back({parent, position, 0});
    return position;
}

bool cached_text::is_chain() const {
    if (!nodes_.empty()) return false;
    for (std::size_t i = 0; i < batch_.size(); ++i)
        if (batch_[i].parent != trunk_ + static_cast<std::int32_t>(i) - 1) return false;
    return true;
}

/// Fills `leaves_`, or changes nothing.
bool cached_text::find_leaves() {
    std::size_t const count = batch_.size();
    children_.assign(count, 0);
    attached_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        std::int32_t const parent = batch_[i].parent;
        attached_[i] = parent < length() ? parent : attached_[at(parent - length())];
        if (parent >= length()) ++children_[at(parent - length())];
    }
    leaves_.clear();
    for (std::size_t i = 0; i < count; ++i) {
        if (children_[i] > 0) continue;
        std::int32_t const from = attached_[i];
        llama_seq_id sequence = from < 0 ? main_ : sequence_of(from);
        bool const fresh = context_->tip(sequence) != from;
        if (fresh) {
            sequence = context_->take();
            if (sequence < 0) {
                forget_leaves();
                return false;
            }
            held_.push_back(sequence);
        }
        leaves_.push_back({i, from, context_->tip(sequence), sequence, fresh});
        context_->tip(sequence) = length() + static_cast<std::int32_t>(i);
    }
    return true;
}

void cached_text::forget_leaves() {
    for (leaf const& one : leaves_) {
        if (one.fresh) {
            context_->give_back(one.sequence);
            std::erase(held_, one.sequence);
        } else {
            context_->tip(one.sequence) = one.before;
        }
    }
    leaves_.clear();
}

/// Lists the sequences of each token: those of the leaves below it.
void cached_text::list_sequences() {
    std::size_t const count = batch_.size();
    counts_.assign(count, 0);
    auto const up = [&](leaf const& one, auto&& visit) {
        for (std::int32_t e = length() + static_cast<std::int32_t>(one.token); e >= length();
             e = batch_[at(e - length())].parent)
            visit(at(e - length()));
    };
    for (leaf const& one : leaves_) up(one, [&](std::size_t i) { ++counts_[i]; });
    ids_.resize(at(std::accumulate(counts_.begin(), counts_.end(), 0)));
    lists_.resize(count);
    llama_seq_id* list = ids_.data();
    for (std::size_t i = 0; i < count; ++i) {
        lists_[i] = list;
        list += counts_[i];
        counts_[i] = 0;
    }
    for (leaf const& one : leaves_) up(one, [&](std::size_t i) { lists_[i][counts_[i]++] = one.sequence; });
    for (std::size_t i = 0; i < count; ++i) batch_[i].sequence = lists_[i][0];
}

bool cached_text::place() {
    if (!find_leaves()) return false;
    list_sequences();
    for (leaf const& one : leaves_)
        if (one.fresh && one.attached >= 0)
            llama_memory_seq_cp(context_->memory(), sequence_of(one.attached), one.sequence, 0,
                                position_of(one.attached) + 1);
    return true;
}

void cached_text::commit() {
    // What all leaves have in common continues the trunk.
    std::size_t common = 0;
    if (nodes_.empty())
        while (common < batch_.size() && batch_[common].parent == trunk_ + static_cast<std::int32_t>(common) - 1 &&
               at(counts_[common]) == leaves_.size())
            ++common;
    trunk_ += static_cast<std::int32_t>(common);
    nodes_.insert(nodes_.end(), batch_.begin() + static_cast<std::ptrdiff_t>(common), batch_.end());
    batch_.clear();
}

void cached_text::undo() {
    for (leaf const& one : leaves_)
        llama_memory_seq_rm(context_->memory(), one.sequence,
                            one.fresh || one.attached < 0 ? 0 : position_of(one.attached) + 1, -1);
    forget_leaves();
    batch_.clear();
}

void cached_text::keep(std::int32_t context, std::span<std::int32_t const> entries) {
    batch_.clear();
    if (context < 0 || context > trunk_)
        refuse("context", context, "the cache has a text of " + std::to_string(trunk_) + " entries");
    validate_entries(entries, length() - context);
    std::int32_t end = context - 1;  // of the path so far
    for (std::size_t k = 0; k < entries.size(); ++k) {
        std::int32_t const entry = context + entries[k];
        if (parent_of(entry) != end)
            refuse("entries", static_cast<std::int64_t>(k), entries[k], "the entries that are kept are one path");
        end = entry;
    }
    hold_only(end < 0 ? main_ : sequence_of(end), context + static_cast<std::int32_t>(entries.size()));
}

void cached_text::hold_only(llama_seq_id sequence, std::int32_t length) {
    // One pass over the cells for all sequences, where no other text has any.
    if (context_->texts() == 1 && held_.size() > 1) llama_memory_seq_keep(context_->memory(), sequence);
    for (llama_seq_id const other : held_) {
        if (other == sequence) continue;
        if (context_->texts() > 1) llama_memory_seq_rm(context_->memory(), other, -1, -1);
        context_->give_back(other);
    }
    main_ = sequence;
    held_.assign(1, main_);
    if (!llama_memory_seq_rm(context_->memory(), main_, length, -1))
        throw std::runtime_error(context_->model().file() + ": llama.cpp cannot shorten a sequence of this model");
    trunk_ = length;
    nodes_.clear();
    context_->tip(main_) = trunk_ - 1;
}

void cached_text::shorten(std::int32_t length) {
    batch_.clear();
    if (length >= this->length()) return;
    if (length <= trunk_) {
        hold_only(main_, length);
        return;
    }
    for (llama_seq_id const sequence : held_) {
        std::int32_t& tip = context_->tip(sequence);
        if (tip < length) continue;
        while (tip >= length) tip = parent_of(tip);
        llama_memory_seq_rm(context_->memory(), sequence, position_of(tip) + 1, -1);
    }
    nodes_.resize(at(length - trunk_));
}

}  // namespace multidraft::examples
