"""Random members of the family, random chunks of their prompts: always the plain model's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from whimbrel.engine.kimi.load import LoadOptions, load_runner
from whimbrel.engine.kimi.protocol import Chunk
from whimbrel.engine.kimi.verify import verify

from .making import k3, kimi_linear, make


def random_shape(rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """A text config and, for half of those that can have one, an indexer."""

    def some(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    layers = some(1, 6)
    full = [n for n in range(1, layers + 1) if rng.random() < 0.4]
    flat, heads, groups = rng.random() < 0.35, some(1, 9), some(1, 3)
    experts = groups * some(2, 4)
    kept = some(1, groups)
    changes: dict[str, Any] = {
        "vocab_size": some(3, 70), "intermediate_size": some(1, 80), "num_attention_heads": heads,
        "num_key_value_heads": heads, "kv_lora_rank": some(1, 70), "qk_nope_head_dim": some(1, 40),
        "qk_rope_head_dim": some(1, 20), "v_head_dim": some(1, 40), "num_experts": experts,
        "num_expert_group": groups, "topk_group": kept, "num_experts_per_token": some(1, experts // groups * kept),
        "num_shared_experts": some(0, 2), "moe_intermediate_size": some(1, 3) * 32,
        "first_k_dense_replace": some(0, 2), "moe_layer_freq": some(1, 2),
    }  # fmt: skip
    linear = {"head_dim": some(4, 70), "num_heads": some(1, 6), "short_conv_kernel_size": some(3, 5)}
    if flat:
        text = kimi_linear(layers, full, hidden_size=some(1, 3) * 32, **changes)
        text["linear_attn_config"].update(linear)
        return text, None
    more = {"hidden_size": some(2, 90), "q_lora_rank": some(1, 40), "attn_res_block_size": some(1, 8)}
    text = k3(layers, full, linear, **changes, **more, routed_expert_hidden_size=some(1, 3) * 32)
    indexer = {"index_n_heads": some(1, 9), "index_head_dim": some(8, 40), "index_topk": some(1, 20)}
    return text, {**indexer, "dsa_layers": full} if full and rng.random() < 0.5 else None


@pytest.mark.parametrize("seed", range(12))
def test_a_random_member_of_the_family_in_random_chunks(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    text, dsa = random_shape(rng)
    plain = make(tmp_path, text, seed=seed, tokens=int(rng.integers(2, 60)), dsa=dsa)
    runner = load_runner(tmp_path, LoadOptions(exact=True, cache="f32"))
    report = verify(runner, tmp_path)
    assert report.ok, [entry for entry in (*report.numbers, *report.selections) if not entry.ok]
    tokens = rng.integers(0, text["vocab_size"], 70)
    wanted = plain.logits(tokens)
    sequences = [runner.new(), runner.new()]
    while any(s.length < tokens.size for s in sequences):
        open_ones = [s for s in sequences if s.length < tokens.size]
        parts = [tokens[s.length : s.length + int(rng.integers(1, 40))] for s in open_ones]
        places = [s.length for s in open_ones]
        chunks = [Chunk(s, p, "all") for s, p in zip(open_ones, parts, strict=True)]
        for logits, place, part in zip(runner.forward(chunks), places, parts, strict=True):
            assert logits is not None and np.abs(logits - wanted[place : place + part.size]).max() < 2e-3
        if rng.random() < 0.2:
            sequences.append(sequences[0].fork())
            sequences.pop(0).close()
    for sequence in sequences:
        sequence.close()
    assert runner.pages_free == runner.pages_total
