"""Generation with causal language models of Hugging Face transformers: `generate`, and `custom_generate` for their own.

    target = AutoModelForCausalLM.from_pretrained(..)
    draft = AutoModelForCausalLM.from_pretrained(..)          # of the same tokenizer
    multidraft.hf.generate(target, draft, **tokenizer(text, return_tensors="pt"), temperature=0.7, max_new_tokens=100)
    target.generate(**inputs, custom_generate=multidraft.hf.custom_generate(draft), do_sample=True, max_new_tokens=100)

The target reads a whole draft tree in one call: by a 4-D attention mask each node attends to its ancestors only, position
ids follow the depth, and the accepted path is compacted in the cache. Needs PyTorch and transformers 4.56 or later.
"""

from __future__ import annotations

import inspect
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import (DynamicCache, LogitsProcessorList, MinPLogitsWarper, NoBadWordsLogitsProcessor, PreTrainedModel,
                          StoppingCriteriaList, StopStringCriteria, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper)
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria
from transformers.utils import ModelOutput

from . import _core
from ._arrays import each, four, integer, one_sampling, sampling, thread_count
from ._errors import refuse
from ._intervals import interval
from ._model_check import ModelCheck, ModelReport
from .batch import SUPPORT_ENDED, DraftedTree, decided
from .controller import Controller
from .methods import Method, check_shape, laws, method as method_of, methods
from .speculate import refuse_no_distribution
from .tree import Tree, as_tree

_TREES = {"any": "3x1x1x1", "pairs": "2x1x1x1", "forks": "fork:3x4", "chains": "chain:4"}
_LOOK_UP = "naive/deterministic"
_LONGEST_SUFFIX = 4  # of the tokens that are looked up
_GREEDY_DRAFT = 0.1  # with temperature 0 each node would have a single candidate
#: What a generation_config may have without any effect on a text, given the four sampling parameters.
_NO_PROCESSORS = {"do_sample", "temperature", "top_k", "top_p", "min_p", "bos_token_id", "eos_token_id", "pad_token_id",
                  "decoder_start_token_id", "transformers_version", "_from_model_config", "use_cache", "return_dict_in_generate"}
#: What `target.generate` may give to a loop besides the texts, none of which changes a text: the checks of `_check_inputs`.
_CACHES = {"cache", "past_key_values", "cache_params"}
_PLACES = {"position_ids", "cache_position"}
_READ = {"attention_mask", "use_cache", "logits_to_keep", "return_dict"}
# The mask of a call that reads prompts and a tree grows with the square of their length. Where it would have more entries, as
# for one of 4096 tokens, prompts are read in a call of their own, with the model's causal mask: a call more is little there.
_MASK_ENTRIES = 2**24
_CHILDREN = {"any": 4, "pairs": 2, "chains": 1}  # of a node, in trees that are chosen at each step
_MEASURED_FOR = 64  # new tokens: for fewer, times are not measured

#: Times by target, then by the texts of a call and the method: (reference to the draft, `_Times`).
_TIMES: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


@dataclass
class Generated(ModelOutput):
    """The result of `generate` with ``return_dict=True``. Lists have one entry per text, unless they are by depth."""

    sequences: torch.Tensor = None  #: (batch, length) int64: prompts and new tokens, then pad tokens
    new_tokens: list = None  #: the number of emitted tokens
    steps: list = None  #: for each text, the number of tokens that each call of the target emitted
    drafted: list = None  #: the number of drafted tokens
    accepted: list = None  #: the number of these that were accepted
    tried_by_depth: list = None  #: over all texts, how often a level with candidates was reached in whole steps ..
    accepted_by_depth: list = None  #: .. and how often one of them was accepted
    target_calls: int = None  #: calls of the target for trees; the first reads the prompts too, if they are not very long
    draft_calls: int = None  #: calls of the draft
    #: for each text, the tokens, accepted ones and one more, of each step whose tree the end of the text did not cut
    whole_steps: list = None

    @property
    def block_efficiency(self) -> float:
        """The mean number of tokens of a text per call of the target, of whole steps; 0 where there is none."""
        calls = sum(map(len, self.whole_steps))
        return sum(map(sum, self.whole_steps)) / calls if calls else 0.0

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """A confidence interval of the block efficiency, of texts like these; (0, inf) for fewer than two whole steps."""
        return interval(self.whole_steps, level)

    @property
    def acceptance_rate(self) -> float:
        """The fraction of reached nodes with candidates at which one was accepted, of whole steps."""
        tried = sum(self.tried_by_depth)
        return sum(self.accepted_by_depth) / tried if tried else 0.0


def generate(target: PreTrainedModel, draft: PreTrainedModel | None, input_ids: torch.Tensor | Mapping, *,
             attention_mask: torch.Tensor | None = None, token_type_ids: torch.Tensor | None = None,
             tree: Tree | Controller | str | Sequence[int] | None = None, method: Method | str | None = None,
             max_new_tokens: int | None = None, max_length: int | None = None,
             do_sample: bool | None = None, temperature: float | None = None, top_k: int | None = None, top_p: float | None = None,
             min_p: float | None = None, draft_sampling: Sequence[Any] | None = None, seed: Any = None,
             eos_token_id: int | Sequence[int] | None = None, pad_token_id: int | None = None,
             logits_processor: Sequence[Callable] | None = None, stopping_criteria: Sequence[Callable] | None = None,
             streamer: Any = None, return_dict: bool = False, threads: int = 1, **options: Any) -> torch.Tensor | Generated:
    """Continues texts with the target's distribution, by several tokens per call of the target.

    target, draft: causal language models with the same vocabulary and attention "sdpa" or "eager", on any devices. Models
        whose state is not a cache of keys and values are refused. A draft of None: candidates are what followed the text's
        last tokens before (prompt look-up), by default a chain of 6, verified by "naive/deterministic".
    input_ids: (batch, length) integers, the prompts, padded on the left; or all that a tokenizer returned. attention_mask:
        (batch, length), 0 for padding; by default pad tokens are padding, as in `target.generate`. token_type_ids: not read.
        Other inputs of the model (images, embeddings, positions, a cache that is not empty) are refused.
    method: a name of `multidraft.methods()`, by default the first. tree: the draft tree of each step, a `Tree` or the text
        of its shape; by default "3x1x1x1", or a similar tree that the method accepts. "auto", or a `Controller`, chooses it at
        each step, as the one with the most tokens per second. For "auto" the times of calls are measured, once for a pair of
        models and a number of texts, if 64 new tokens or more are asked for; equal seeds then do not give equal texts.
    max_new_tokens: the largest number of new tokens; or max_length, including the prompt with its padding; by default 20
        new tokens. A text also ends at the target's last position; where one of a batch is beyond the draft's, all go on without
        drafts.
    temperature (0: greedy), top_k, top_p, min_p: of the target. With one of these and without do_sample the others are off, whatever
        the generation_config says; otherwise those that are not given are the generation_config's, of which top_k is 50 unless it
        says otherwise, and the text is greedy unless do_sample or the generation_config say so. All else of the generation_config
        applies: penalties, words that are forbidden, limits of the length. All tokens as likely as the last of the top_k are kept,
        as transformers keeps them.
    draft_sampling: (temperature, top_k, top_p, min_p) of the draft: by default the target's, with temperature 0.1 if the
        target's is 0. It does not change the distribution of the text.
    seed: one, or one per text; by default drawn by torch's generator, so that torch.manual_seed repeats it. Equal seeds give
        equal texts if the models' logits are equal. The texts of a batch have different draws, even with one seed. With
        num_return_sequences one per returned text, those of a prompt one after another.
    eos_token_id, pad_token_id: by default those of the generation_config, that of `target` where none is given. An empty list: no
        token ends a text.
    logits_processor: a list of functions (input_ids, scores) -> scores, applied to both models, with (nodes, length) texts
        including the prompt's padding and (nodes, vocabulary) float32 scores. They must not keep state between calls.
    stopping_criteria: a list, called after every new token with (1, length) input_ids and None for the scores.
    streamer: receives the prompt, then the new tokens of each step; for a batch of one text.
    options: of `target.generate`, such as generation_config, num_return_sequences, repetition_penalty, max_time; stop_strings
        with tokenizer.

    Returns (batch, length) tokens like `target.generate`, or with `return_dict` a `Generated`. Raises `InvalidInput`, a
    `ValueError`, for invalid arguments.
    """
    if isinstance(input_ids, Mapping):
        attention_mask = input_ids.get("attention_mask") if attention_mask is None else attention_mask
        token_type_ids = input_ids.get("token_type_ids") if token_type_ids is None else token_type_ids
        read = ("input_ids", "attention_mask", "token_type_ids")
        options = {**{name: value for name, value in input_ids.items() if name not in read}, **options}
        input_ids = input_ids.get("input_ids")
    if token_type_ids is not None and "token_type_ids" in _parameters(target):
        refuse("token_type_ids", type(token_type_ids).__name__, f"{type(target).__name__} reads them, and a tree has none")
    for name in ("assistant_model", "custom_generate", "inputs_embeds"):
        if options.get(name) is not None:
            refuse(name, type(options[name]).__name__, {"assistant_model": "it is draft here"}.get(name, "it has no meaning here"))
    given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    ours = do_sample is None and any(value is not None for value in given.values())
    params = tuple(off if value is None else value for value, off in zip(given.values(), (1.0, 0, 1.0, 0.0)))
    configs = [c for c in (options.get("generation_config"), getattr(target, "generation_config", None)) if c is not None]

    def of_configs(name):
        return next((value for c in configs if (value := getattr(c, name, None)) is not None), None)

    copies = options.get("num_return_sequences") or of_configs("num_return_sequences") or 1
    copies = integer("num_return_sequences", copies, 1, 2**31 - 1)

    def loop_of(texts, mask, seeds):
        return _Loop(target, draft, texts, mask, tree, method, max_new_tokens, max_length, params, draft_sampling, seed,
                     of_configs("eos_token_id") if eos_token_id is None else eos_token_id,
                     of_configs("pad_token_id") if pad_token_id is None else pad_token_id, logits_processor, stopping_criteria, streamer,
                     threads, seeds)

    loop = loop_of(input_ids, attention_mask, copies)  # checks all arguments, those of the other way too
    if ours and not options and _sets_sampling_alone(target) or not hasattr(target, "generate"):
        for name, value in options.items():
            if value is not None:
                refuse(name, type(value).__name__, f"{type(target).__name__} has no `generate`, whose option it is")
        with torch.no_grad():
            return loop.run(return_dict)
    if ours:
        options |= {"do_sample": params[0] != 0}
        given = dict(zip(given, params)) if params[0] != 0 else {}
    elif do_sample is not None:
        options["do_sample"] = do_sample
    options |= {name: value for name, value in given.items() if value is not None}
    criteria = list(stopping_criteria or [])
    if options.get("stop_strings") is not None:  # custom loops do not get the tokenizer
        if options.get("tokenizer") is None:
            refuse("tokenizer", None, "stop_strings are texts of its tokens")
        criteria.append(StopStringCriteria(options.pop("tokenizer"), options.pop("stop_strings")))
    if max_length is not None:
        options["max_length"] = max_length
    elif max_new_tokens is not None or not any(
            getattr(config, name, None) for config in (options.get("generation_config"), target.generation_config)
            for name in ("max_new_tokens", "max_length")):
        options["max_new_tokens"] = loop.room
    mask = torch.from_numpy(loop.seen).to(input_ids.device)
    if loop.room == 0:  # transformers refuses it
        return loop_of(input_ids.repeat_interleave(copies, 0), mask.repeat_interleave(copies, 0), 1).run(return_dict)
    if eos_token_id is not None:  # processors of transformers read it, too
        options["eos_token_id"] = loop.ends
    decode = custom_generate(draft, tree=tree, method=method, draft_sampling=draft_sampling, seed=seed, eos_token_id=eos_token_id,
                             pad_token_id=pad_token_id, streamer=streamer, return_dict=return_dict, threads=threads)
    return target.generate(input_ids.to(torch.int64), attention_mask=mask.to(torch.int64), custom_generate=decode,
                           logits_processor=LogitsProcessorList(logits_processor or []),
                           stopping_criteria=StoppingCriteriaList(criteria), pad_token_id=loop.pad, **options)


def check_model(model: PreTrainedModel, input_ids: torch.Tensor, *, tolerance: float = 0.01) -> ModelReport:
    """Whether a model reads trees as texts: that the row of a node is the row of the same tokens when the model reads them by
    itself. With it `generate` has the model's own distribution. A model that ignores the mask, takes positions by the place in
    the call, or keeps more than keys and values writes fluent text of another one.

    model: as for `generate`. input_ids: one text, (tokens,) or (1, tokens), of 5 tokens or more; a sentence is enough.
    tolerance: the largest total variation of rows that count as equal: 1e-3 is far above the rounding of single precision, 0.05
        above that of bfloat16, and below what a wrong mask does.

    Two texts share the calls, of different lengths: trees of 3x2x1 in one call, level by level and below a prompt that was read
    before; a path of each is kept and its text goes on. Some forty calls of the model. Raises `InvalidInput` for models and texts
    that `generate` refuses.
    """
    vocabulary = _check_models({"model": model})
    if not isinstance(input_ids, torch.Tensor) or input_ids.dim() not in (1, 2) or (input_ids.dim() == 2 and len(input_ids) != 1):
        refuse("input_ids.shape", tuple(getattr(input_ids, "shape", ())), "one text is wanted, (tokens,) or (1, tokens)")
    text = [integer("input_ids", token, 0, vocabulary - 1) for token in input_ids.reshape(-1).tolist()]
    if len(text) < 5:
        refuse("input_ids.shape[-1]", len(text), "a model is checked with 5 tokens or more")
    limit = min(_positions(model), _window(model) or 2**31 - 1)
    if len(text) + 4 > limit:
        refuse("input_ids.shape[-1]", len(text), f"the model sees {limit} tokens, and 4 are for a tree")
    if not 0 <= tolerance <= 1:
        refuse("tolerance", tolerance, "a total variation lies in [0, 1]")
    with torch.no_grad():
        return ModelCheck(model, lambda: _CachedModel(model, "model", 2), tolerance)(text)


def _sets_sampling_alone(target):
    """Whether the model's generation_config has nothing but sampling parameters and the numbers of some tokens."""
    config = getattr(target, "generation_config", None)
    if not callable(getattr(config, "to_diff_dict", None)):
        return config is None
    return all(value is None or value is False or name in _NO_PROCESSORS for name, value in config.to_diff_dict().items())


def custom_generate(draft: PreTrainedModel | None = None, *, tree: Tree | Controller | str | Sequence[int] | None = None,
                    method: Method | str | None = None, draft_sampling: Sequence[Any] | None = None, seed: Any = None,
                    eos_token_id: int | Sequence[int] | None = None, pad_token_id: int | None = None, streamer: Any = None,
                    return_dict: bool = False, threads: int = 1) -> Callable:
    """The loop of `generate` as an argument of transformers: ``target.generate(.., custom_generate=custom_generate(draft))``.

    All that `target.generate` makes of its arguments applies: do_sample, generation_config, logits processors, stopping criteria,
    num_return_sequences, return_dict_in_generate (a `Generated`). Beams, contrastive search, constraints, guidance, scores as
    results and inputs of the model besides the tokens are refused. A streamer is given here: transformers keeps its own from such
    loops, and never ends it. The arguments are those of `generate`; an eos_token_id that logits processors read is given to
    `target.generate`.
    """

    @torch.no_grad()
    def decode(model, input_ids, logits_processor=None, stopping_criteria=None, generation_config=None, **model_kwargs):
        for name, off in (("num_beams", 1), ("penalty_alpha", None), ("guidance_scale", 1), ("dola_layers", None), ("output_scores", False),
                          ("output_logits", False), ("output_attentions", False), ("output_hidden_states", False),
                          ("force_words_ids", None), ("constraints", None)):
            value = getattr(generation_config, name, None)
            if value is not None and value != off and value != 0:
                refuse("generation_config." + name, value, "a tree of draft tokens has nothing like it")
        _check_inputs(input_ids, model_kwargs)
        params, processors = _warpers(logits_processor or []) if generation_config.do_sample else ((0.0, 0, 1.0, 0.0), logits_processor)
        mask = model_kwargs.get("attention_mask")
        ends = generation_config.eos_token_id if eos_token_id is None else eos_token_id
        _check_ends(ends, generation_config, logits_processor or [])
        pads = generation_config.pad_token_id if pad_token_id is None else pad_token_id
        native = (MaxLengthCriteria, EosTokenCriteria)
        # One of the caller's replaces that of the generation_config.
        limits = [max(c.max_length, input_ids.shape[1] + 1) for c in stopping_criteria or [] if isinstance(c, MaxLengthCriteria)]
        longest = min([generation_config.max_length, *limits])
        loop = _Loop(model, draft, input_ids, torch.ones_like(input_ids) if mask is None else mask, tree, method, None,
                     longest, params, draft_sampling, seed, [] if ends is None else ends, pads, processors,
                     [c for c in stopping_criteria or [] if not isinstance(c, native)], streamer, threads)
        return loop.run(return_dict or bool(generation_config.return_dict_in_generate))

    return decode


def _check_inputs(input_ids, inputs):
    """Refuses what `target.generate` got and a tree's calls do not read, except what transformers itself adds."""
    for name, value in inputs.items():
        if value is None or value is False or name in _READ or isinstance(value, Mapping) and not value:
            continue
        if name in _CACHES:
            size = value.get_seq_length() if hasattr(value, "get_seq_length") else len(value) if hasattr(value, "__len__") else 1
            if int(size or 0) == 0:
                continue
            refuse(name, f"{type(value).__name__} of length {int(size)}", "the loop begins with empty caches of both models")
        if name in _PLACES and _are_places(value, inputs.get("attention_mask"), input_ids):
            continue
        refuse(name, type(value).__name__, "a tree's calls read the texts' tokens alone, each at its own place")


def _are_places(given, mask, input_ids):
    """Whether positions are those that the texts have without being told; of padding any."""
    seen = torch.ones_like(input_ids) if mask is None else (mask != 0).to(input_ids.dtype)
    own = seen.cumsum(-1) - 1
    if not isinstance(given, torch.Tensor) or given.dim() == 0 or given.shape[-1] != input_ids.shape[1] or \
            given.dim() > 1 and given.shape[-2] not in (1, len(input_ids)):
        return False
    return bool(((given.to(own.device) == own) | (seen == 0)).all())


def _check_ends(ends, config, processors):
    """Refuses end tokens that differ from those which processors have."""
    ends, others = (set(_tokens("eos_token_id", x, 0)) for x in (ends, config.eos_token_id))
    if ends == others:
        return
    for x in processors:
        read = others if isinstance(x, NoBadWordsLogitsProcessor) else getattr(x, "eos_token_id", None)
        if read is not None and set(_tokens("eos_token_id", list(read) if isinstance(read, set) else read, 0)) != ends:
            refuse("eos_token_id", sorted(ends), f"{type(x).__name__} reads {sorted(others)}: give it to target.generate(eos_token_id=..)")


def _warpers(processors):
    """((temperature, top_k, top_p, min_p), the other processors): the loop's own parameters where the last processors are
    these four in this order, as transformers lists them."""
    params = [1.0, 0, 1.0, 0.0]
    kinds = (TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, MinPLogitsWarper)
    names = ("temperature", "top_k", "top_p", "min_p")
    first = next((k for k, x in enumerate(processors) if isinstance(x, kinds)), len(processors))
    last = -1
    for x in processors[first:]:
        at = kinds.index(type(x)) if type(x) in kinds else -1
        if at <= last or getattr(x, "min_tokens_to_keep", 1) != 1 or getattr(x, "filter_value", -np.inf) != -np.inf:
            return (1.0, 0, 1.0, 0.0), list(processors)
        params[at] = getattr(x, names[at])
        last = at
    return tuple(params), list(processors[:first])


def _parameters(model):
    forward = getattr(model, "forward", None)
    return inspect.signature(forward).parameters if callable(forward) else {}


class _CachedModel:
    """A model and its cache of a batch of texts of different lengths.

    Entry e of the cache is token e of each text; entries beyond the end of a shorter text are masked. The columns from
    `base` are read in this step: first tokens of the texts that the cache lacked, where `missing` (batch, columns) marks
    them, then nodes of the tree, the same for every text; `keep` moves the accepted ones behind their text.
    """

    def __init__(self, model, name, texts):
        self.model, self.name = model, name
        self.embedded = _embedded(model)
        self.cache = DynamicCache()
        self.lengths = np.zeros(texts, np.int64)
        self.base = 0
        self.columns = 0
        self.missing = np.zeros((texts, 0), bool)
        parameters = _parameters(getattr(model, "_orig_mod", model))  # a compiled model's own takes anything
        # past_key_values is called cache from transformers 5.24 on.
        self.cache_argument = "cache" if "cache" in parameters and "past_key_values" not in parameters else "past_key_values"
        for needed in ("position_ids", self.cache_argument, "attention_mask"):
            if needed not in parameters:
                refuse(name, type(model).__name__, f"its forward() takes no {needed}: it cannot read a tree")
        self.keeps_logits = "logits_to_keep" in parameters

    @property
    def nodes(self):
        """The number of nodes that this step has read."""
        return self.columns - self.base - self.missing.shape[1]

    def read(self, texts):
        """Reads long prompts, with the model's own causal mask."""
        self.lengths = np.array([len(t) for t in texts], np.int64)
        self.base = self.columns = int(self.lengths.max())
        tokens = np.zeros((len(texts), self.base), np.int64)
        for row, text in zip(tokens, texts):
            row[: len(text)] = text
        self._forward(tokens, np.broadcast_to(np.arange(self.base), tokens.shape), None, 1)

    def forward(self, texts, tokens, positions, visible):
        """Logits (batch, nodes, vocabulary) of new nodes. They attend to their text and to those nodes of the tree, new ones
        included, that `visible` (batch, new nodes, nodes) marks. `texts` end with the root's token: a step's first call reads
        the tokens before it that are not in the cache, such as the prompt."""
        count, new = tokens.shape
        if self.columns == self.base:
            tokens, positions, visible = self._with_missing(texts, tokens, positions, visible)
        else:
            visible = np.concatenate([np.repeat(self.missing[:, None], new, 1), visible], 2)
        device = self.model.device
        settled = torch.arange(self.base, device=device) < torch.from_numpy(self.lengths).to(device)[:, None]
        seen = torch.cat([settled[:, None].expand(count, tokens.shape[1], self.base),
                          torch.from_numpy(np.array(visible)).to(device)], 2)
        bias = torch.zeros(seen.shape, dtype=self.model.dtype, device=device)
        bias.masked_fill_(~seen, torch.finfo(self.model.dtype).min)
        self.columns += tokens.shape[1]
        return self._forward(tokens, positions, bias[:, None], new)

    def _with_missing(self, texts, tokens, positions, visible):
        ends = np.array([len(text) - 1 for text in texts])
        behind = ends - self.lengths
        gap = int(behind.max())
        self.missing = np.arange(gap) < behind[:, None]
        if gap == 0:
            return tokens, positions, visible
        count, new = tokens.shape
        before = np.zeros((count, gap), np.int64)
        for row, text, n in zip(before, texts, behind.tolist()):
            row[:n] = text[len(text) - 1 - n: -1]
        # Columns beyond the end of a shorter text may have any position: nothing attends to them.
        places = np.minimum(self.lengths[:, None] + np.arange(gap), ends[:, None])
        seen = np.zeros((count, gap + new, gap + visible.shape[2]), bool)
        seen[:, :gap, :gap] = np.tri(gap, dtype=bool)
        seen[:, gap:, :gap] = self.missing[:, None]
        seen[:, gap:, gap:] = visible
        return np.concatenate([before, tokens], 1), np.concatenate([places, positions], 1), seen

    def _forward(self, tokens, positions, mask, kept):
        """The logits of the last `kept` entries: those of every token of a prompt could be larger than the model."""
        device = self.model.device
        more = {"logits_to_keep": kept} if self.keeps_logits else {}
        result = self.model(input_ids=torch.from_numpy(tokens).to(device), attention_mask=mask,
                            position_ids=torch.from_numpy(np.array(positions)).to(device),
                            use_cache=True, **{self.cache_argument: self.cache}, **more)
        if getattr(result, "logits", None) is None:
            refuse(self.name, type(self.model).__name__, "it returns no logits: a model with a language modelling head is wanted")
        if result.logits.shape[-1] > self.embedded:
            refuse(f"{self.name}(..).logits.shape[-1]", result.logits.shape[-1],
                   f"its head has more tokens than the {self.embedded} that its config.vocab_size and its embedding have")
        return result.logits[:, -kept:]

    def keep(self, kept):
        """Moves the tokens that were missing and then nodes, in increasing order, behind their text, and drops the others."""
        gap = self.missing.shape[1]
        kept = [np.concatenate([np.flatnonzero(row), gap + np.asarray(k, np.int64)]) for row, k in zip(self.missing, kept)]
        self.missing = self.missing[:, :0]
        texts = np.repeat(np.arange(len(kept)), [len(k) for k in kept])
        come = self.base + np.concatenate(kept)
        go = np.concatenate([n + np.arange(len(k)) for n, k in zip(self.lengths, kept)])
        moved = np.flatnonzero(come != go)
        self.lengths = self.lengths + [len(k) for k in kept]
        self.base = int(self.lengths.max())
        if self.columns == 0:
            return
        if len(moved):
            for layer in self.layers():
                for entries in (layer.keys, layer.values):
                    b, i, j = (torch.from_numpy(x[moved]).to(entries.device) for x in (texts, come, go))
                    entries[b, :, j] = entries[b, :, i]
        self.crop()

    def layers(self):
        return [layer for layer in self.cache.layers if getattr(layer, "keys", None) is not None]

    def crop(self):
        # The arguments of transformers' own `crop` differ between its versions.
        for layer in self.layers():
            layer.keys, layer.values = layer.keys[..., : self.base, :], layer.values[..., : self.base, :]
        self.columns = self.base

    def select(self, texts):
        """Keeps some of the texts and drops the others."""
        self.lengths, self.missing = self.lengths[texts], self.missing[texts]
        if self.columns:
            for layer in self.layers():
                layer.keys, layer.values = layer.keys[texts], layer.values[texts]
            self.base = int(self.lengths.max())
            self.crop()


class _Shape:
    """The data of a tree that every step reads: for each level its nodes with children, grouped by their number."""

    def __init__(self, tree):
        self.tree = tree
        self.mask = tree.mask()
        self.up_to = [tree.up_to(d) for d in range(tree.depth + 1)]
        counts = np.array([len(tree.children(v)) for v in range(len(tree))])
        self.first = np.array([tree.children(v).start for v in range(len(tree))])
        self.levels = [np.flatnonzero((tree.depths == d) & (counts > 0)) for d in range(tree.depth)]
        self.groups = [[(int(n), level[counts[level] == n]) for n in np.unique(counts[level])] for level in self.levels]
        self.inner = np.concatenate([*self.levels, np.empty(0, np.int64)]).astype(np.int64)  # in the order that the draft reads
        self.place = np.full(len(tree), -1, np.int64)
        self.place[self.inner] = np.arange(len(self.inner))


def _choices(tree, method):
    """What chooses the trees, or None for one tree."""
    if not isinstance(tree, Controller) and not (isinstance(tree, str) and tree == "auto"):
        return None
    most = _CHILDREN.get(method.shapes)
    if most is None or method.drawn_by_text:
        refuse("tree", tree if isinstance(tree, str) else "a Controller", f"the trees of {method} are not chosen at each step: " +
               ("they are chains that branch at the root only" if most is None else "its draws are fixed by the place in the text"))
    if isinstance(tree, str):
        return _Auto(most)
    if tree.children > most and method.shapes != "any":
        refuse("tree.children", tree.children, f"{method} takes trees with {most} per node at most")
    return _Given(tree)


class _Given:
    """A user's controller."""

    def __init__(self, controller):
        self.controller, self.depth, self.nodes = controller, controller.depth, controller.nodes

    def start(self, loop):
        self.controller.start()

    def choose(self, depth, unread):
        return self.controller.choose(depth, unread)

    def learn(self, path, nodes, seconds):
        self.controller.learn(path, nodes=nodes, **seconds)

    def end(self, loop):
        pass


@dataclass
class _Times:
    """Seconds for one of the texts of a batch."""

    target: dict
    draft: dict
    step: float
    inner: float


class _Auto:
    """``tree="auto"``: a `Controller` with measured times. What a step takes apart from the models' calls is measured in the
    text's first steps: they draft two tokens (and read the prompt), none, and two."""

    depth, nodes = 6, 16
    _first = (Tree([-1, 0, 1]), Tree([-1]), Tree([-1, 0, 1]))

    def __init__(self, children):
        self.children = children
        self.controller = None
        self.other = []

    @staticmethod
    def knows(target, draft, texts, method):
        of, times = _TIMES.get(target, {}).get((texts, str(method)), (None, None))
        return times if times is not None and (None if of is None else of()) is draft else None

    def start(self, loop):
        draft = None if loop.draft is None else loop.draft.model
        times = self.knows(loop.target.model, draft, len(loop.texts), loop.method)
        if times is not None:
            self.make(times)
            return
        sizes = (1, 2, 4, 8, self.nodes + 1)
        self.times = _Times(*({1: 0.0} if model is None else _call_seconds(model.model, model.name, len(loop.texts), sizes)
                              for model in (loop.target, loop.draft)), 0.0, 0.0)

    def make(self, times):
        self.times = times
        self.controller = Controller(times.target, times.draft, step=times.step, inner=times.inner, nodes=self.nodes,
                                     depth=self.depth, children=self.children)
        self.controller.start()

    def choose(self, depth, unread):
        if self.controller is None and len(self.other) == len(self._first):
            _, none, two = self.other
            self.make(_Times(self.times.target, self.times.draft, none, max(0.0, two - none) / 2))
        if self.controller is not None:
            return self.controller.choose(depth, unread)
        self.other.append(0.0)
        return self._first[len(self.other) - 1].up_to(depth)

    def learn(self, path, nodes, seconds):
        if self.controller is not None:
            self.controller.learn(path, nodes=nodes, **seconds)
        else:
            self.other[-1] = max(0.0, seconds["other"] or 0.0)

    def end(self, loop):
        if self.controller is None:
            return
        draft = None if loop.draft is None else loop.draft.model
        learnt = _Times(*({rows: self.controller.seconds(rows)[k] for rows in of} for k, of in
                          enumerate((self.times.target, self.times.draft))), self.times.step, self.times.inner)
        _TIMES.setdefault(loop.target.model, {})[len(loop.texts), str(loop.method)] = (
            None if draft is None else weakref.ref(draft), learnt)


def _call_seconds(model, name, texts, sizes):
    """The seconds of a call for each of so many texts, by the number of its nodes."""
    cached = _CachedModel(model, name, texts)
    context = max(1, min(64, _positions(model) - max(sizes)))
    cached.read([[0] * context] * texts)
    result = {}
    for rows in (sizes[-1], *sizes):  # the first one warms up
        places = np.broadcast_to(np.minimum(context + np.arange(rows), _positions(model) - 1), (texts, rows))
        seconds = []
        for _ in range(2):
            began = _now({model.device})
            cached.forward([[0] * (context + 1)] * texts, np.zeros((texts, rows), np.int64), places,
                           np.broadcast_to(np.tri(rows, dtype=bool), (texts, rows, rows)))
            seconds.append((_now({model.device}) - began) / texts)
            cached.keep([[]] * texts)
        result[rows] = min(seconds)
    return result


def _now(devices):
    for device in devices:
        if device.type in ("cuda", "xpu", "mps"):
            getattr(torch, device.type).synchronize()
    return time.perf_counter()


class _Loop:
    def __init__(self, target, draft, input_ids, attention_mask, tree, method, max_new_tokens, max_length, params,
                 draft_sampling, seed, eos_token_id, pad_token_id, processors, criteria, streamer, threads, copies=1):
        """copies: of each text, by which there are more seeds; such a loop does not run."""
        self.method = method_of((_LOOK_UP if draft is None else next(iter(methods()))) if method is None else method)
        if draft is None and self.method.law != "deterministic":
            refuse("method", self.method, f"without a draft model candidates are not drawn: {_LOOK_UP} verifies them")
        self.choices = _choices(tree, self.method)
        if tree is None or self.choices is not None:
            tree = "chain:6" if draft is None else _TREES[self.method.shapes]
        tree = as_tree(tree)
        check_shape(self.method, tree)
        self.shape = _Shape(tree)
        self.shapes = {tree: self.shape}
        models = {"target": target} if draft is None else {"target": target, "draft": draft}
        vocabulary = _check_models(models)
        self.ends = _tokens("eos_token_id", eos_token_id, 0)
        pads = _tokens("pad_token_id", pad_token_id, -1)
        pad = pads[0] if pads else None
        prompts, self.padded, self.seen = _prompts(input_ids, attention_mask, pad, self.ends, vocabulary)
        self.pad = pad if pad is not None else self.ends[0] if self.ends else 0
        count, width = self.padded.shape
        if max_new_tokens is not None and max_length is not None:
            refuse("max_length", max_length, "give it or max_new_tokens")
        if max_length is not None:
            room = integer("max_length", max_length, 0, 2**31 - 1) - width
            if room < 0:
                refuse("max_length", max_length, f"input_ids have {width} tokens already")
        else:
            room = integer("max_new_tokens", 20 if max_new_tokens is None else max_new_tokens, 0, 2**31 - 1)
        self.room = room
        self.limit = _positions(target)
        self.draft_limit = self.limit if draft is None else _positions(draft)  # beyond it texts go on without drafts
        if isinstance(self.choices, _Auto) and not self.choices.knows(target, draft, count, self.method) and room < _MEASURED_FOR:
            self.choices = None
        self.depth = tree.depth if self.choices is None else self.choices.depth
        self.most_nodes = len(tree) if self.choices is None else max(len(tree), self.choices.nodes + 1)
        longest = max(map(len, prompts))
        if longest > self.limit:
            refuse("input_ids.shape[1]", longest, f"the target has {self.limit} positions")
        for name, model in models.items():
            window = _window(model)
            last = min(longest + room, self.limit, self.draft_limit if name == "draft" else self.limit)
            if window is not None and last > window:
                refuse(name, type(model).__name__, f"its attention sees {window} tokens, and texts of "
                       f"{last} are asked for: such windows are not made into trees")
            switch = _switch(model)
            # The nodes of the last tree lie beyond the text.
            if switch is not None and min(map(len, prompts)) <= switch < last + self.depth:
                refuse(name, type(model).__name__, f"its rotary embedding changes at {switch} tokens, and texts of {last} are asked "
                       "for: the nodes of a tree would change it too early")
        if streamer is not None and count > 1:
            refuse("streamer", type(streamer).__name__, f"it takes one text, and input_ids have {count}")
        self.threads = thread_count(threads)
        self.params = one_sampling(params)
        if draft_sampling is None:
            draft_sampling = (_GREEDY_DRAFT if params[0] == 0 else params[0], *params[1:])
        self.draft_params = one_sampling(four("draft_sampling", draft_sampling), "draft_sampling.")
        self.draft_table = sampling(*self.draft_params, 1)
        self.processors = LogitsProcessorList(_functions("logits_processor", processors))
        self.criteria = StoppingCriteriaList(_functions("stopping_criteria", criteria))
        self.streamer = streamer
        self.device = input_ids.device
        self.texts = [prompt.tolist() for prompt in prompts]
        self.prompt_sizes = [len(t) for t in self.texts]
        if seed is None:
            seed = int(torch.randint(2**63 - 1, ()))
        self.seeds = each("seed", seed, count * copies, np.uint64)
        self.ids = np.arange(count, dtype=np.uint32)
        self.rows = list(range(count))  # indices in the batch of the texts that have not ended
        self.target = _CachedModel(target, "target", count)
        self.draft = None if draft is None else _CachedModel(draft, "draft", count)
        depth = self.depth
        self.seconds = dict.fromkeys(("target", "draft"), 0.0)
        self.devices = {model.device for model in models.values()}
        self.steps = [[] for _ in self.texts]
        self.whole_steps = [[] for _ in self.texts]
        self.drafted = [0] * count
        self.accepted = [0] * count
        self.tried_by_depth = [0] * depth
        self.accepted_by_depth = [0] * depth
        self.target_calls = self.draft_calls = 0

    def run(self, return_dict):
        if self.streamer is not None:
            self.streamer.put(torch.from_numpy(self.padded))
        if self.room > 0:
            longest = max(self.prompt_sizes) - 1
            if longest and len(self.texts) * (longest + self.most_nodes) ** 2 > _MASK_ENTRIES:
                read = [text[:-1] for text in self.texts]
                self.target.read(read)
                if self.draft is not None and self.depth and self.room > 1 and longest < self.draft_limit:
                    self.draft.read(read)
                    self.draft_calls += 1
            if self.choices is not None:
                self.choices.start(self)
            while self.rows:
                self.step()
            if self.choices is not None:
                self.choices.end(self)
        if self.streamer is not None:
            self.streamer.end()
        sequences = torch.from_numpy(self.sequences()).to(self.device)
        if not return_dict:
            return sequences
        return Generated(sequences, [len(t) - n for t, n in zip(self.texts, self.prompt_sizes)], self.steps, self.drafted,
                         self.accepted, self.tried_by_depth, self.accepted_by_depth, self.target_calls, self.draft_calls,
                         self.whole_steps)

    def sequences(self):
        width = self.padded.shape[1]
        new = [text[n:] for text, n in zip(self.texts, self.prompt_sizes)]
        result = np.full((len(new), width + max(map(len, new))), self.pad, np.int64)
        result[:, :width] = self.padded
        for row, tokens in zip(result, new):
            row[width: width + len(tokens)] = tokens
        return result

    def step(self):
        """Drafts a tree for every text, verifies it, and keeps the accepted path."""
        began = self.now()
        self.seconds = dict.fromkeys(self.seconds, 0.0)
        rows = self.rows
        length = np.array([len(self.texts[r]) for r in rows])
        left = np.array([self.room - (len(self.texts[r]) - self.prompt_sizes[r]) for r in rows])
        # No deeper than the tokens and positions that are left. The depth does not depend on draws.
        room = np.minimum(left - 1, self.limit - length)
        draft_room = max(self.draft_limit - int(length.max()), 0)
        deepest = np.clip(room, 0, draft_room)
        reads_prompts = self.target.columns == 0
        if self.choices is not None:
            read = self.draft is None or self.draft.columns == 0
            tree = self.choices.choose(int(deepest.max()), 1 if read else int((length - self.draft.lengths).max()))
            self.shape = self.shapes.get(tree) or self.shapes.setdefault(tree, _Shape(tree))
        shape = self.shape
        depths = np.minimum(deepest, shape.tree.depth)
        tokens = np.full((len(rows), len(shape.tree)), SUPPORT_ENDED, np.int32)
        tokens[:, 0] = [self.texts[r][-1] for r in rows]
        certain = np.zeros_like(tokens)
        draft_logits = self.look_up(tokens) if self.draft is None else self.grow(tokens, certain, length, depths)

        nodes = len(shape.up_to[int(depths.max())])
        mask = np.broadcast_to(shape.mask[:nodes, :nodes], (len(rows), nodes, nodes))
        with self.timing("target"):
            logits = self.target.forward([self.texts[r] for r in rows], np.maximum(tokens[:, :nodes], 0).astype(np.int64),
                                         self.places(length, np.arange(nodes)), mask)
        self.target_calls += 1
        logits = _cut(self.processed(logits, tokens, np.arange(nodes)), *self.params[:2])
        trees = [shape.up_to[d] for d in depths.tolist()]
        target_rows = [b * nodes + np.arange(len(t)) for b, t in enumerate(trees)]
        draft_rows = None
        if draft_logits is None:  # only roots
            draft_logits, draft_rows = logits, target_rows
        else:
            inner = draft_logits.shape[1]
            draft_rows = [b * inner + np.maximum(shape.place[: len(t)], 0) % inner for b, t in enumerate(trees)]
        if draft_logits.dtype != logits.dtype:
            draft_logits, logits = draft_logits.float(), logits.float()
        law = laws()[self.method.law]
        drafted = [DraftedTree(t, tokens[b, : len(t)], certain[b, : len(t)], law) for b, t in enumerate(trees)]
        reads = self.method.reads_draft
        verdicts = decided(self.method, drafted, None, _matrix(logits), _matrix(draft_logits) if reads else None,
                           temperature=self.params[0], top_k=0, top_p=self.params[2], min_p=self.params[3],
                           draft_sampling=self.draft_params, seeds=self.seeds[rows], ids=self.ids[rows],
                           positions=(length - 1).astype(np.int32), target_rows=np.concatenate(target_rows),
                           draft_rows=np.concatenate(draft_rows) if reads else None, threads=self.threads)
        self.take(verdicts, tokens, room >= min(self.depth, draft_room))
        if self.choices is not None:
            seconds = {**self.seconds, "other": self.now() - began - sum(self.seconds.values())}
            share = {name: None if reads_prompts else value / len(rows) for name, value in seconds.items()}
            for tree, verdict in zip(trees, verdicts):
                self.choices.learn(verdict.path, len(tree), share)

    def now(self):
        """Seconds of a clock, after the work of all devices; 0 if trees are not chosen by them."""
        return 0.0 if self.choices is None else _now(self.devices)

    @contextmanager
    def timing(self, kind):
        began = self.now()
        yield
        self.seconds[kind] += self.now() - began

    def take(self, verdicts, tokens, is_whole):
        rows, shape = self.rows, self.shape
        kept, kept_by_draft, on = [], [], []
        for b, (row, verdict) in enumerate(zip(rows, verdicts)):
            self.count(row, tokens[b], verdict, is_whole[b])
            emitted, ended = self.emit(row, verdict.tokens)
            if self.streamer is not None:
                self.streamer.put(torch.tensor(emitted))
            self.steps[row].append(len(emitted))
            if ended:
                continue
            on.append(b)
            path = [0, *verdict.path.tolist()]
            kept.append(path)
            if self.draft is not None:
                fed = shape.place[path]
                kept_by_draft.append(fed[(fed >= 0) & (fed < self.draft.nodes)].tolist())
        self.rows = [rows[b] for b in on]
        if not on:
            return
        whole = len(on) == len(rows)
        for model, columns in ((self.target, kept), (self.draft, kept_by_draft)):
            if model is None:
                continue
            if not whole:
                of_all = [[] for _ in rows]
                for b, mine in zip(on, columns):
                    of_all[b] = mine
                columns = of_all
            model.keep(columns)
            if not whole:
                model.select(on)

    def emit(self, row, tokens):
        """Appends tokens to a text: returns those appended, and whether the text has ended."""
        text = self.texts[row]
        emitted = []
        for token in tokens:
            text.append(token)
            emitted.append(token)
            new = len(text) - self.prompt_sizes[row]
            if token in self.ends or new == self.room or len(text) > self.limit:
                return emitted, True
            if self.criteria:
                ids = torch.from_numpy(self.prefix(row)[None]).to(self.device)
                if bool(torch.as_tensor(self.criteria(ids, None)).any()):
                    return emitted, True
        return emitted, False

    def count(self, row, tokens, verdict, is_whole):
        self.drafted[row] += int((tokens[1:] >= 0).sum())
        self.accepted[row] += verdict.accepted
        if not is_whole:
            return
        self.whole_steps[row].append(verdict.accepted + 1)
        for depth, node in enumerate([0, *verdict.path.tolist()]):
            children = self.shape.tree.children(node)
            if len(children) and tokens[children.start] >= 0:
                self.tried_by_depth[depth] += 1
                self.accepted_by_depth[depth] += depth < verdict.accepted

    def places(self, length, nodes):
        """Positions of nodes, limited to the model's; nodes beyond the limit are not used."""
        return np.minimum(length[:, None] - 1 + self.shape.tree.depths[nodes], self.limit - 1)

    def look_up(self, tokens):
        """Fills the trees with what followed the last tokens of each text before: after the longest suffix that occurred, the
        last occurrence first, then after shorter ones. The children of a node are different tokens."""
        tree = self.shape.tree
        for b, row in enumerate(self.rows):
            text = np.array(self.texts[row])
            found = []
            for n in range(min(_LONGEST_SUFFIX, len(text) - 1), 0, -1):
                windows = np.lib.stride_tricks.sliding_window_view(text[:-1], n)
                found += (np.flatnonzero((windows == text[-n:]).all(1))[::-1] + n).tolist()
            follow = [text[at: at + tree.depth].tolist() for at in dict.fromkeys(found)]
            paths = {0: ()}
            for v in range(len(tree)):
                children = tree.children(v)
                if v not in paths or not len(children):
                    continue
                d = len(paths[v])
                next_tokens = dict.fromkeys(f[d] for f in follow if len(f) > d and tuple(f[:d]) == paths[v])
                for child, token in zip(children, next_tokens):
                    tokens[b, child] = token
                    paths[child] = (*paths[v], token)

    def grow(self, tokens, certain, length, depths):
        """Draws the trees level by level. Returns the draft's logits (texts, inner nodes, vocabulary)."""
        shape, rows = self.shape, self.rows
        texts, found, fed = [self.texts[r] for r in rows], [], 0
        for d, level in enumerate(shape.levels[: int(depths.max())]):
            fed += len(level)
            # The draft has not read an accepted leaf: it reads it before the root, in the same call.
            with self.timing("draft"):
                logits = self.draft.forward(
                    texts, np.maximum(tokens[:, level], 0).astype(np.int64), self.places(length, level),
                    np.broadcast_to(shape.mask[level][:, shape.inner[:fed]], (len(rows), len(level), fed)))
            self.draft_calls += 1
            logits = self.processed(logits, tokens, level)
            found.append(logits)
            self.draw(d, logits, tokens, certain, length, depths)
        return torch.cat(found, 1) if len(found) > 1 else found[0] if found else None

    def draw(self, depth, logits, tokens, certain, length, depths):
        shape, rows = self.shape, self.rows
        level = shape.levels[depth]
        flat = _matrix(logits)
        column = {int(v): k for k, v in enumerate(level)}
        positions = (length - 1).astype(np.int32)
        for n, nodes in shape.groups[depth]:
            texts, which = np.nonzero((tokens[:, nodes] >= 0) & (depths > depth)[:, None])
            if not len(texts):
                continue
            of = nodes[which]
            places = np.array([column[int(v)] for v in of], np.int64) + texts * len(level)
            drawn, _, sure = _core.draft(
                self.method.name, flat, False, texts.astype(np.int32), of.astype(np.int32),
                np.full(len(of), depth, np.int32), n, self.draft_table, self.seeds[rows], positions, self.ids[rows],
                places, None, self.threads)
            for k in np.flatnonzero(drawn[:, 0] < 0).tolist():
                refuse_no_distribution(flat[places[k]].float().numpy(), f"node {of[k]} of text {rows[texts[k]]}")
            tokens[texts[:, None], shape.first[of][:, None] + np.arange(n)] = drawn
            certain[texts, of] = sure

    def prefix(self, row):
        """A text with its prompt's padding."""
        return np.array([*self.padded[row], *self.texts[row][self.prompt_sizes[row]:]], np.int64)

    def processed(self, logits, tokens, nodes):
        """The logits of nodes after the processors, which get one level at a time: its texts have equal lengths."""
        if not self.processors:
            return logits
        tree = self.shape.tree
        result = logits.to(torch.float32, copy=True)
        for b, row in enumerate(self.rows):
            text = self.prefix(row)
            for depth in np.unique(tree.depths[nodes]):
                here = [k for k, v in enumerate(nodes) if tree.depths[v] == depth and tokens[b, v] >= 0]
                if not here:
                    continue
                paths = [tokens[b, np.flatnonzero(self.shape.mask[nodes[k]])[1:]] for k in here]
                ids = torch.from_numpy(np.stack([np.concatenate([text, path]) for path in paths])).to(logits.device)
                scores = self.processors(ids, result[b, here])
                if not isinstance(scores, torch.Tensor):
                    refuse("logits_processor(..)", type(scores).__name__, f"scores are a tensor, ({len(here)}, {logits.shape[2]}) here")
                if tuple(scores.shape) != (len(here), logits.shape[2]):
                    refuse("logits_processor(..).shape", tuple(scores.shape), f"scores were ({len(here)}, {logits.shape[2]})")
                result[b, here] = scores
        return result


def _matrix(logits):
    """(rows, vocabulary) on the CPU, in a supported type."""
    flat = logits.reshape(-1, logits.shape[-1])
    if flat.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        flat = flat.float()
    return flat.detach().cpu().contiguous()


def _cut(logits, temperature, top_k):
    """The target's logits without those below the top_k-th of their row. Equal ones stay, as transformers keeps them: the library
    would keep the lowest tokens of these."""
    if temperature == 0 or not 0 < top_k < logits.shape[-1]:
        return logits
    return logits.masked_fill(logits < torch.topk(logits, int(top_k)).values[..., -1:], -float("inf"))


def _functions(name, given):
    """A list of them; None is none."""
    if given is None:
        return []
    if not isinstance(given, (list, tuple)):
        refuse(name, type(given).__name__, "a list of functions is wanted")
    for i, function in enumerate(given):
        if not callable(function):
            refuse(name, type(function).__name__, "a function is wanted", i)
    return list(given)


def _check_models(models):
    for name, model in models.items():
        config = getattr(model, "config", None)
        if config is None or not callable(getattr(model, "forward", None)):
            refuse(name, type(model).__name__, "a causal language model of transformers is wanted")
        if getattr(config, "alibi", False):
            refuse(name, type(model).__name__, "its attention is biased by distance (ALiBi), which the mask of a tree does not hold")
        if getattr(config, "is_encoder_decoder", False):
            refuse(name, type(model).__name__, "it is an encoder and a decoder: causal language models read trees")
        kinds = set(getattr(config, "layer_types", None) or [])
        strange = kinds - {"full_attention", "sliding_attention", "chunked_attention"}
        if getattr(model, "_is_stateful", False) or strange:
            refuse(name, type(model).__name__, "its state is not a cache of keys and values, which a tree needs" +
                   (f" ({', '.join(sorted(strange))})" if strange else ""))
        attention = getattr(config, "_attn_implementation", "eager")
        if attention not in ("eager", "sdpa"):
            refuse(f"{name}.config._attn_implementation", attention, "a tree's mask is taken by 'sdpa' and 'eager'")
    sizes = [model.config.get_text_config().vocab_size for model in models.values()]
    if sizes[0] != sizes[-1]:
        refuse("draft.config.vocab_size", sizes[-1], f"draft and target have one vocabulary, of {sizes[0]}")
    return sizes[0]


def _embedded(model):
    """The number of tokens that a model reads."""
    try:
        table = len(model.get_input_embeddings().weight)
    except (AttributeError, NotImplementedError):
        table = 0
    return max(model.config.get_text_config().vocab_size, table)


def _positions(model):
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return 2**31 - 1 if limit is None else int(limit)


def _window(model):
    """The size of the attention window in tokens, None if unlimited."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    sizes = []
    if kinds is None or "sliding_attention" in kinds:
        sizes.append(getattr(config, "sliding_window", None))
    if kinds is None or "chunked_attention" in kinds:
        sizes.append(getattr(config, "attention_chunk_size", None))
    if "local" in (getattr(config, "attention_layers", None) or []):  # GPT-Neo
        sizes.append(getattr(config, "window_size", None))
    return min((s for s in sizes if s is not None), default=None)


def _switch(model):
    """The number of tokens beyond which all of a text are embedded otherwise (longrope), None if there is none."""
    config = model.config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kinds = [rope, *(v for v in rope.values() if isinstance(v, dict))]  # one for all layers, or one for each kind of them
    if not any("longrope" in (kind.get("rope_type"), kind.get("type")) for kind in kinds):
        return None
    sizes = [kind.get("original_max_position_embeddings") for kind in kinds]
    sizes += [getattr(config, "original_max_position_embeddings", None), getattr(config, "max_position_embeddings", None)]
    return next((int(size) for size in sizes if size is not None), None)


def _tokens(name, value, least):
    if value is None:
        return []
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if isinstance(value, (int, np.integer)):
        value = [value]
    return [integer(name, token, least, 2**31 - 1) for token in value]


def _prompts(input_ids, attention_mask, pad, ends, vocabulary):
    """The texts without padding, and with it: (batch, length) int64."""
    if not isinstance(input_ids, torch.Tensor):
        refuse("input_ids", type(input_ids).__name__, "a torch.Tensor of shape (batch, length) is wanted "
               "(return_tensors='pt')")
    if input_ids.dim() != 2 or not input_ids.numel():
        refuse("input_ids.shape", tuple(input_ids.shape), "(batch, length) is wanted, with at least one token")
    if input_ids.dtype not in (torch.int64, torch.int32):
        refuse("input_ids.dtype", input_ids.dtype, "torch.int64 is wanted")
    ids = input_ids.detach().cpu().to(torch.int64).numpy()
    if attention_mask is not None:
        if not isinstance(attention_mask, torch.Tensor) or tuple(attention_mask.shape) != ids.shape:
            refuse("attention_mask.shape", tuple(getattr(attention_mask, "shape", ())),
                   f"that of input_ids is wanted, {ids.shape}")
        seen = attention_mask.detach().cpu().numpy() != 0
    elif pad is not None and pad not in ends:
        seen = ids != pad
    else:
        seen = np.ones(ids.shape, bool)
    for b, row in enumerate(seen):
        if not row.any():
            refuse("attention_mask", "0", "every text has a token to go on from", b)
        if not row[row.argmax():].all():
            refuse("attention_mask", row.astype(int).tolist(), "prompts are padded on the left "
                   "(tokenizer.padding_side = 'left')", b)
    wrong = np.argwhere(seen & ((ids < 0) | (ids >= vocabulary)))
    if len(wrong):
        b, i = wrong[0].tolist()
        refuse(f"input_ids[{b}]", ids[b, i], f"a token is in [0, {vocabulary})", i)
    return [row[mask] for row, mask in zip(ids, seen)], ids, seen
