// A text in a cache of llama.cpp, with the draft tree behind it: which of llama.cpp's sequences hold which entries.
#pragma once

#include <llama.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "llama_cpp/shared_context.hpp"

namespace multidraft::examples {

/// The entries of one text: its trunk, which is one path, then the nodes of a tree in the order of reading.
///
/// Each leaf has a sequence of llama.cpp's, a node is in those of all leaves below it, so that what a node attends to
/// is its path. The accepted path is kept by dropping all other sequences and the end of its own: no key or value is
/// moved, and free cells are reused.
class cached_text {
public:
    /// An empty text, with a sequence of the context, which must outlive it and have one.
    explicit cached_text(shared_context& context);

    [[nodiscard]] std::int32_t length() const noexcept { return trunk_ + static_cast<std::int32_t>(nodes_.size()); }
    /// Entries that are one path, all in the text's own sequence.
    [[nodiscard]] std::int32_t trunk() const noexcept { return trunk_; }
    /// The entry before another on its path, -1 for none; of the added tokens, too.
    [[nodiscard]] std::int32_t parent_of(std::int32_t entry) const;

    /// Begins a call.
    void begin() noexcept { batch_.clear(); }
    /// Adds a token of the call, whose entry is `length()` and the number of those before it. Returns its position.
    std::int32_t add(std::int32_t parent);
    /// Whether the tokens of the call are one path that continues the text, which has no tree.
    [[nodiscard]] bool is_chain() const;
    /// Gives each leaf of the call a sequence: the one that ends where its path begins, or a new one that gets this
    /// path. Returns false, with nothing changed, where there are not enough.
    [[nodiscard]] bool place();
    /// The sequences of the tokens of the call, as `llama_batch` has them.
    [[nodiscard]] std::span<std::int32_t> counts() noexcept { return counts_; }
    [[nodiscard]] std::span<llama_seq_id*> lists() noexcept { return lists_; }
    /// Ends a call that llama.cpp has read.
    void commit();
    /// Ends a call after `place`, and removes from llama.cpp's cache what it may have added.
    void undo();

    /// Keeps the first `context` entries and of those behind `context + entries[k]`, which are one path. Throws
    /// `invalid_input`.
    void keep(std::int32_t context, std::span<std::int32_t const> entries);
    /// Removes the entries `length ..`, and nothing if there are none.
    void shorten(std::int32_t length);

private:
    struct node {
        std::int32_t parent;
        std::int32_t position;
        llama_seq_id sequence;  ///< one that goes through it
    };
    /// A leaf of a call.
    struct leaf {
        std::size_t token;
        std::int32_t attached;  ///< the entry of the cache that its path continues; -1: none
        std::int32_t before;    ///< that its sequence ended at
        llama_seq_id sequence;
        bool fresh;  ///< whether the sequence was free before
    };

    [[nodiscard]] std::int32_t position_of(std::int32_t entry) const;
    [[nodiscard]] llama_seq_id sequence_of(std::int32_t entry) const;
    [[nodiscard]] bool find_leaves();
    void list_sequences();
    void forget_leaves();
    /// Makes `sequence`, which holds the first `length` entries, the only one of the text.
    void hold_only(llama_seq_id sequence, std::int32_t length);

    shared_context* context_;
    std::int32_t trunk_ = 0;
    llama_seq_id main_;
    std::vector<node> nodes_;
    std::vector<llama_seq_id> held_;  ///< the sequences that the text has, `main_` among them

    // Of one call.
    std::vector<node> batch_;
    std::vector<leaf> leaves_;
    std::vector<std::int32_t> children_, attached_;
    std::vector<std::int32_t> counts_;  ///< of each token, its sequences: `lists_`, which point into `ids_`
    std::vector<llama_seq_id> ids_;
    std::vector<llama_seq_id*> lists_;
};

}  // namespace multidraft::examples
