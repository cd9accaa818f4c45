"""PyTorch operators `torch.ops.multidraft.draft`, `.verify` and `.verify_linked_trees`, without graph breaks.

Importing this module registers them. `draft` and `verify` are functions over them for batches of trees of one shape, which
`torch.compile` leaves to Python; `verify_linked_trees` has the signature of serving engines' functions for tree
verification. Logits may be on any device.
In a build with CUDA, `draft` and `verify` run on the current stream of CUDA logits without waiting (`multidraft.cuda`).
Otherwise, and for rows of probabilities, the library runs on the CPU: logits are copied there, and the results back.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np
import torch
from torch import Tensor

from . import _core, cuda
from ._arrays import are_off, each, four, integer, one_id, sampling, thread_count
from ._errors import refuse
from .batch import _sampler, needs_depths
from .candidates import Candidates
from .methods import Law, Method, check_shape, law as law_of, method as method_of
from .tree import Tree, as_tree

_ROWS = (torch.float32, torch.float16, torch.bfloat16)


class Draws(NamedTuple):
    """The children drawn for rows of logits."""

    tokens: Tensor  #: (rows, n) int32; `multidraft.SUPPORT_ENDED` where no token was left to draw
    counts: Tensor  #: (rows,) int32: number drawn
    certain: Tensor  #: (rows,) int32: number that are certain


class Verdicts(NamedTuple):
    """The verdicts on a batch of trees."""

    path: Tensor  #: (batch, depth) int32: the accepted nodes, root excluded, in order; then -1
    accepted: Tensor  #: (batch,) int32: the number of accepted nodes
    next: Tensor  #: (batch,) int32: the token that follows; -1 if a row was not a distribution


def _host(tensor, name, dtype):
    """A tensor of integers as a contiguous array of `dtype`; its values must fit."""
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool:
        refuse(name + ".dtype", tensor.dtype, "a tensor of integers is wanted")
    if tensor.dim() != 1:
        refuse(name + ".shape", tuple(tensor.shape), "one dimension is wanted")
    array = tensor.detach().cpu().numpy()
    if dtype is np.uint64 and array.dtype == np.int64:
        return np.ascontiguousarray(array).view(np.uint64)  # PyTorch has few operators on uint64
    info = np.iinfo(dtype)
    if array.dtype != dtype and array.size:
        bad = np.flatnonzero((array < info.min) | (array > info.max))
        if len(bad):
            refuse(name, array[bad[0]], f"an integer is in [{info.min}, {info.max}]", int(bad[0]))
    return np.ascontiguousarray(array, dtype)


def _rows(tensor, name, kinds=_ROWS):
    if tensor.dim() != 2:
        refuse(name + ".shape", tuple(tensor.shape), "(rows, vocabulary) is wanted")
    if tensor.dtype not in kinds:
        refuse(name + ".dtype", tensor.dtype, "rows are " + " or ".join(str(k) for k in kinds))
    tensor = tensor.detach().cpu()
    return tensor if tensor.shape[1] < 2 or tensor.stride(1) == 1 else tensor.contiguous()


def _on_stream(logits):
    return logits.is_cuda and cuda.is_built()


_BITS = {np.int32: torch.int32, np.uint32: torch.int32, np.int64: torch.int64, np.uint64: torch.int64}


def _integers(tensor, name, dtype):
    """A tensor in device memory as one of the bits of `dtype`, without looking at its values; others as by `_host`."""
    if tensor is None or not tensor.is_cuda:
        return _optional(tensor, name, dtype)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool:
        refuse(name + ".dtype", tensor.dtype, "a tensor of integers is wanted")
    if tensor.dim() != 1:
        refuse(name + ".shape", tuple(tensor.shape), "one dimension is wanted")
    return tensor.detach().to(_BITS[dtype]).contiguous()


def _rows_on_stream(place, name, tensor):
    tensor = tensor.detach()
    if tensor.dim() == 2 and tensor.shape[1] > 1 and tensor.stride(1) != 1:
        tensor = tensor.contiguous()
    return cuda._rows(place, name, tensor)


def _offsets(tensor, count, nodes):
    """Where each of `count` trees begins among all nodes, and where the last one ends."""
    offsets = _host(tensor, "offsets", np.int64)
    if len(offsets) != count + 1:
        refuse("offsets.size", len(offsets), f"there is one more than requests, which are {count}")
    for b, (begin, end) in enumerate(zip([0, *offsets.tolist()], offsets.tolist())):
        if b == 0 and end != 0:
            refuse("offsets", end, "the first tree begins with node 0", b)
        if b > 0 and not begin < end <= nodes:
            refuse("offsets", end, f"the tree that ends here begins at {begin} and has one node or more, of {nodes} in all", b)
    if offsets[-1] != nodes:
        refuse("offsets", offsets[-1], f"the last tree ends with the {nodes} nodes", count)
    return offsets


def _whole_rows(name, rows):
    if isinstance(rows, Candidates):
        refuse(name, repr(rows), "multidraft.draft and multidraft.verify take candidates; the operators take whole rows "
               "(torch.from_numpy(candidates.whole()))")


def _optional(tensor, name, dtype):
    return None if tensor is None else _host(tensor, name, dtype)


def _to(array, device):
    return torch.from_numpy(array).to(device)


@torch.library.custom_op("multidraft::draft", mutates_args=())
def _draft(logits: Tensor, n: int, method: str, nodes: Tensor, depths: Tensor, requests: Tensor, seeds: Tensor,
           positions: Tensor, ids: Optional[Tensor], temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0,
           min_p: float = 0.0, threads: int = 1) -> Tuple[Tensor, Tensor, Tensor]:
    n = integer("n", n, 0, 2**24)
    if _on_stream(logits):
        count = len(seeds)
        with cuda._Place("logits", logits, None) as place:
            return tuple(cuda._launch_draft(
                place, method_of(method), _rows_on_stream(place, "logits", logits), _integers(requests, "requests", np.int32),
                count, n, sampling(temperature, top_k, top_p, min_p, count), _integers(nodes, "nodes", np.int32),
                _integers(depths, "depths", np.int32), _integers(seeds, "seeds", np.uint64),
                _integers(positions, "positions", np.int32), _integers(ids, "ids", np.uint32)))
    out = _core.draft(method_of(method).name, _rows(logits, "logits"), False, _host(requests, "requests", np.int32),
                      _host(nodes, "nodes", np.int32), _host(depths, "depths", np.int32), n,
                      sampling(temperature, top_k, top_p, min_p, len(seeds)), _host(seeds, "seeds", np.uint64),
                      _host(positions, "positions", np.int32), _optional(ids, "ids", np.uint32), None, None,
                      thread_count(threads))
    return tuple(_to(x, logits.device) for x in out)


@_draft.register_fake
def _(logits, n, method, nodes, depths, requests, seeds, positions, ids, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0,
      threads=1):
    rows = logits.shape[0]
    return (logits.new_empty((rows, n), dtype=torch.int32), logits.new_empty(rows, dtype=torch.int32),
            logits.new_empty(rows, dtype=torch.int32))


@torch.library.custom_op("multidraft::verify", mutates_args=())
def _verify(method: str, law: str, offsets: Tensor, parents: Tensor, tokens: Tensor, certain: Optional[Tensor],
            target: Tensor, draft: Optional[Tensor], target_rows: Optional[Tensor], draft_rows: Optional[Tensor],
            seeds: Tensor, positions: Tensor, ids: Optional[Tensor], temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0,
            min_p: float = 0.0, draft_temperature: float = 1.0, draft_top_k: int = 0, draft_top_p: float = 1.0,
            draft_min_p: float = 0.0, probabilities: bool = False, threads: int = 1) -> Tuple[Tensor, Tensor, Tensor]:
    kinds = (torch.float32,) if probabilities else _ROWS
    count = len(seeds)
    begins = _offsets(offsets, count, len(parents))
    if probabilities:
        reason = "no sampling parameter applies to probabilities"
        are_off(None, (temperature, top_k, top_p, min_p), reason)
        are_off("draft_sampling", (draft_temperature, draft_top_k, draft_top_p, draft_min_p), reason)
    if _on_stream(target) and not probabilities:
        return _verify_on_stream(method_of(method), law, begins, parents, tokens, certain, target,
                                 draft, target_rows, draft_rows, seeds, positions, ids,
                                 sampling(temperature, top_k, top_p, min_p, count),
                                 sampling(draft_temperature, draft_top_k, draft_top_p, draft_min_p, count))
    path, accepted, following = _core.verify(
        method_of(method).name, law, begins, _host(parents, "parents", np.int32),
        _host(tokens, "tokens", np.int32), _optional(certain, "certain", np.int32), _rows(target, "target", kinds), False,
        None if draft is None else _rows(draft, "draft", kinds), False, _optional(target_rows, "target_rows", np.int64),
        _optional(draft_rows, "draft_rows", np.int64), sampling(temperature, top_k, top_p, min_p, count),
        sampling(draft_temperature, draft_top_k, draft_top_p, draft_min_p, count), _host(seeds, "seeds", np.uint64),
        _host(positions, "positions", np.int32), _optional(ids, "ids", np.uint32), thread_count(threads), False,
        probabilities)
    for b in range(count):
        path[begins[b] + accepted[b]: begins[b + 1]] = -1
    return tuple(_to(x, target.device) for x in (path, accepted, following))


def _verify_on_stream(method, law, offsets, parents, tokens, certain, target, draft, target_rows, draft_rows, seeds, positions,
                      ids, params, of_draft):
    count, nodes = len(seeds), len(parents)
    with cuda._Place("target", target, None) as place:
        p = _rows_on_stream(place, "target", target)
        q = cuda._NO_ROWS if draft is None else _rows_on_stream(place, "draft", draft)
        of_p = cuda._check_row_of("target", _integers(target_rows, "target_rows", np.int64), p, nodes)
        of_q = None if draft is None else cuda._check_row_of("draft", _integers(draft_rows, "draft_rows", np.int64), q, nodes)
        outputs = place.results((nodes,), (count,), (count,))
        cuda._launch_verify(
            place, method, law, (count, offsets, _integers(parents, "parents", np.int32), int(np.diff(offsets).max(initial=1))),
            _integers(tokens, "tokens", np.int32), _integers(certain, "certain", np.int32), p, q, of_p, of_q, params, of_draft,
            _integers(seeds, "seeds", np.uint64), _integers(positions, "positions", np.int32),
            _integers(ids, "ids", np.uint32), False, 0, outputs)
        return tuple(array for array, _ in outputs)


@_verify.register_fake
def _(method, law, offsets, parents, tokens, certain, target, draft, target_rows, draft_rows, seeds, positions, ids,
      temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, draft_temperature=1.0, draft_top_k=0, draft_top_p=1.0,
      draft_min_p=0.0, probabilities=False, threads=1):
    count = seeds.shape[0]
    return (target.new_empty(parents.shape[0], dtype=torch.int32), target.new_empty(count, dtype=torch.int32),
            target.new_empty(count, dtype=torch.int32))


@torch.library.custom_op("multidraft::verify_linked_trees", mutates_args={"predicts", "accept_index", "accept_token_num"})
def _verify_linked_trees(predicts: Tensor, accept_index: Tensor, accept_token_num: Tensor, candidates: Tensor,
                         retrieve_index: Tensor, retrieve_next_token: Tensor, retrieve_next_sibling: Tensor,
                         target_probs: Tensor, draft_probs: Optional[Tensor], method: str, law: str, seeds: Tensor,
                         positions: Tensor, ids: Tensor, threads: int = 1) -> None:
    count = _linked_trees(predicts, accept_index, accept_token_num, candidates, retrieve_index, retrieve_next_token,
                          retrieve_next_sibling, target_probs, draft_probs)
    offsets, parents, order = _core.trees_of_links(_links(retrieve_next_token, "retrieve_next_token"),
                                                   _links(retrieve_next_sibling, "retrieve_next_sibling"))
    chosen = method_of(method)
    if chosen.counts_certain:
        refuse("method", method, "linked trees do not say which candidates are certain")
    if chosen.reads_draft and draft_probs is None:
        refuse("draft_probs", None, f"{chosen.name} reads them")
    tokens = _host(candidates.reshape(-1), "candidates", np.int32)[order]
    nothing = (1.0, 0, 1.0, 0.0)
    path, accepted, following = _core.verify(
        chosen.name, law, offsets, parents, tokens, None, _rows(target_probs.flatten(0, 1), "target_probs", (torch.float32,)),
        False, _rows(draft_probs.flatten(0, 1), "draft_probs", (torch.float32,)) if chosen.reads_draft else None, False, order,
        order if chosen.reads_draft else None, nothing, nothing, _host(seeds, "seeds", np.uint64),
        _host(positions, "positions", np.int32), _host(ids, "ids", np.uint32), thread_count(threads), False,
        True)
    depth = accept_index.shape[1]
    if count and accepted.max() >= depth:
        refuse("accept_index.shape[1]", depth, f"paths have up to {int(accepted.max()) + 1} nodes, their roots among them")
    place = _host(retrieve_index.reshape(-1), "retrieve_index", np.int64)
    wrong = np.flatnonzero((place < 0) | (place >= predicts.shape[0]))
    wrong = wrong[np.isin(wrong, order)]
    if len(wrong):
        refuse("retrieve_index", place[wrong[0]], f"predicts have {predicts.shape[0]} entries", int(wrong[0]))
    indices = np.full((count, depth), -1, np.int64)
    at, what = [], []
    for b in range(count):
        begin = offsets[b]
        nodes = order[begin + np.array([0, *path[begin: begin + accepted[b]]], np.int64)]
        indices[b, : len(nodes)] = place[nodes]
        at.extend(place[nodes])
        what.extend([*tokens[begin + path[begin: begin + accepted[b]]], following[b]])
    accept_index.copy_(torch.from_numpy(indices))
    accept_token_num.copy_(torch.from_numpy(accepted))
    predicts[torch.tensor(at, dtype=torch.int64, device=predicts.device)] = torch.tensor(
        what, dtype=predicts.dtype, device=predicts.device)


def _links(tensor, name):
    return _host(tensor.reshape(-1), name, np.int32).reshape(tuple(tensor.shape))


def _linked_trees(predicts, accept_index, accept_token_num, candidates, retrieve_index, retrieve_next_token,
                  retrieve_next_sibling, target_probs, draft_probs):
    """Checks the shapes of all tensors and returns the number of trees."""
    if candidates.dim() != 2:
        refuse("candidates.shape", tuple(candidates.shape), "(batch, nodes) is wanted")
    count, width = candidates.shape
    for name, tensor in (("retrieve_index", retrieve_index), ("retrieve_next_token", retrieve_next_token),
                         ("retrieve_next_sibling", retrieve_next_sibling)):
        if tensor.shape != candidates.shape:
            refuse(name + ".shape", tuple(tensor.shape), f"that of candidates is wanted, ({count}, {width})")
    for name, tensor in (("target_probs", target_probs), ("draft_probs", draft_probs)):
        if tensor is not None and (tensor.dim() != 3 or tuple(tensor.shape[:2]) != (count, width)):
            refuse(name + ".shape", tuple(tensor.shape), f"({count}, {width}, vocabulary) is wanted")
    if predicts.dim() != 1:
        refuse("predicts.shape", tuple(predicts.shape), "one dimension is wanted")
    if accept_index.dim() != 2 or accept_index.shape[0] != count or accept_index.shape[1] < 1:
        refuse("accept_index.shape", tuple(accept_index.shape), f"({count}, levels of the trees) is wanted")
    if tuple(accept_token_num.shape) != (count,):
        refuse("accept_token_num.shape", tuple(accept_token_num.shape), f"({count},) is wanted")
    return count


def _each(name, value, count, dtype):
    """One integer per request as a tensor of int64."""
    if isinstance(value, Tensor):
        if tuple(value.shape) != (count,):
            refuse(name + ".shape", tuple(value.shape), f"one number, or ({count},) is wanted")
        return value
    numbers = each(name, value, count, dtype)
    return torch.from_numpy(numbers.view(np.int64) if dtype is np.uint64 else numbers.astype(np.int64))


def draft(logits: Tensor, n: int, *, law: Law | str | None = None, method: Method | str | None = None,
          temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0, nodes: Any, positions: Any,
          depths: Any = None, seeds: Any = 0, ids: Any = None, threads: int = 1) -> Draws:
    """Draws n children for each row of the draft's logits, (rows, vocabulary) float32, float16 or bfloat16; not `Candidates`.

    law, method: the sampler. nodes: the node of each row in its tree, 0 for roots; required, as it addresses the draws.
    seeds, positions, ids, nodes, depths: one, or one per row. Returns `Draws`; for details see `multidraft.draft`.
    """
    _whole_rows("logits", logits)
    if logits.dim() != 2:
        refuse("logits.shape", tuple(logits.shape), "(rows, vocabulary) is wanted")
    count = logits.shape[0]
    chosen = _sampler(method, law)
    if chosen.law != "deterministic" and n > 0:
        one_id(ids, count, seeds, positions, nodes)
    if depths is None:
        if not isinstance(nodes, Tensor):
            needs_depths(chosen, nodes)
        depths = 0
    at = torch.arange(count)
    return Draws(*torch.ops.multidraft.draft(
        logits, n, chosen.name, _each("nodes", nodes, count, np.int32),
        _each("depths", depths, count, np.int32), at, _each("seeds", seeds, count, np.uint64),
        _each("positions", positions, count, np.int32), None if ids is None else _each("ids", ids, count, np.uint32),
        float(temperature), top_k, float(top_p), float(min_p), threads))


def verify(method: Method | str, tree: Tree | str | Sequence[int], tokens: Tensor, target_logits: Tensor,
           draft_logits: Tensor | None = None, *, law: Law | str, certain: Tensor | None = None, temperature: float = 1.0,
           top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0, draft_sampling: Any = None, positions: Any,
           seeds: Any = 0, ids: Any = None, probabilities: bool = False, threads: int = 1) -> Verdicts:
    """Verifies a batch of trees of one shape.

    tokens: (batch, nodes) integers, the root's first. target_logits, draft_logits: (batch, nodes, vocabulary); float32
    probabilities with `probabilities`. certain: (batch, nodes), for laws with certain children. seeds, positions, ids: one,
    or one per tree; a tensor of seeds has int64, whose 64 bits are read as unsigned. Returns `Verdicts`; for details see
    `multidraft.verify`.
    """
    tree = as_tree(tree)
    nodes = len(tree)
    if tokens.dim() != 2 or tokens.shape[1] != nodes:
        refuse("tokens.shape", tuple(tokens.shape), f"(batch, {nodes}) is wanted: the tree has {nodes} nodes")
    count = tokens.shape[0]
    for name, rows in (("target_logits", target_logits), ("draft_logits", draft_logits)):
        _whole_rows(name, rows)
        if rows is not None and (rows.dim() != 3 or tuple(rows.shape[:2]) != (count, nodes)):
            refuse(name + ".shape", tuple(rows.shape), f"({count}, {nodes}, vocabulary) is wanted")
    one_id(ids, count, seeds, positions)
    chosen = method_of(method)
    check_shape(chosen, tree)
    if chosen.reads_draft and draft_logits is None:
        refuse("draft_logits", None, f"{chosen.name} reads them")
    if chosen.counts_certain and certain is None:
        refuse("certain", None, f"trees of law '{chosen.law}' say how many children of each node are certain")
    of_draft = (temperature, top_k, top_p, min_p) if draft_sampling is None else four("draft_sampling", draft_sampling)
    path, accepted, following = torch.ops.multidraft.verify(
        chosen.name, str(law_of(law)), torch.arange(count + 1) * nodes,
        torch.tensor(tree.parents.tolist(), dtype=torch.int32).repeat(count), tokens.reshape(-1),
        certain.reshape(-1) if chosen.counts_certain else None, target_logits.flatten(0, 1),
        draft_logits.flatten(0, 1) if chosen.reads_draft else None, None, None,
        _each("seeds", seeds, count, np.uint64), _each("positions", positions, count, np.int32),
        None if ids is None else _each("ids", ids, count, np.uint32), float(temperature), top_k, float(top_p), float(min_p), float(of_draft[0]),
        of_draft[1], float(of_draft[2]), float(of_draft[3]), probabilities, threads)
    return Verdicts(path.reshape(count, nodes)[:, : tree.depth], accepted, following)


def verify_linked_trees(predicts: Tensor, accept_index: Tensor, accept_token_num: Tensor, candidates: Tensor,
                        retrieve_index: Tensor, retrieve_next_token: Tensor, retrieve_next_sibling: Tensor,
                        target_probs: Tensor, draft_probs: Tensor | None = None, *,
                        method: Method | str = "naive/deterministic", law: Law | str = "deterministic", positions: Any,
                        seeds: Any = 0, ids: Any = None, threads: int = 1) -> None:
    """Verifies trees given by links: a replacement for SGLang's `tree_speculative_sampling_target_only`, and for its
    `verify_tree_greedy` with rows that are 1 at one token. The tensors are the same, without the uniform numbers.

    predicts: output, (entries,) int32: at ``retrieve_index`` of the root and of each accepted node, the token that follows
        it. accept_index: output, (batch, levels): `retrieve_index` of the root and of the accepted nodes, then -1.
        accept_token_num: output, (batch,): the number of accepted nodes, without the root.
    candidates: (batch, nodes): the tokens, node 0 is the root. retrieve_index: (batch, nodes): the entry of `predicts` of
        each node. retrieve_next_token, retrieve_next_sibling: (batch, nodes): a node's first child and the next child of
        its parent, in the order of the draws; -1 for none.
    target_probs, draft_probs: (batch, nodes, vocabulary) float32 probabilities; the draft's for methods that read them.
    law: how the candidates were drawn, such as "deterministic" for the draft's most likely tokens; a method of another law
        is refused.
    seeds, positions, ids: one, or one per tree. Each step of a text needs its own position, or the draws repeat. ids are by
        default 0, 1, 2 ..

    A tree with a row that is not a distribution gets no node and the token -1. If an argument is refused, nothing is
    written.
    """
    count = candidates.shape[0] if candidates.dim() else 0
    if ids is not None:
        one_id(ids, count, seeds, positions)
    torch.ops.multidraft.verify_linked_trees(
        predicts, accept_index, accept_token_num, candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling,
        target_probs, draft_probs, method_of(method).name, str(law_of(law)), _each("seeds", seeds, count, np.uint64),
        _each("positions", positions, count, np.int32),
        torch.arange(count) if ids is None else _each("ids", ids, count, np.uint32), threads)
