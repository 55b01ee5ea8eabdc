"""The model family written as plainly as can be, in float64 and without caches: what the engine is held against.

Keys and values are expanded, the recurrence goes token by token, every expert is computed where it is chosen.
Nothing of the engine is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
CODES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


def rms(x: Array, w: Array, eps: float) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def unpacked(packed: Array, scales: Array) -> Array:
    """MXFP4 to float64: even columns in the low nibbles, 2^(scale - 127) for each 32 columns."""
    rows, half = packed.shape
    w = np.empty((rows, 2 * half))
    w[:, 0::2], w[:, 1::2] = CODES[packed & 15], CODES[packed >> 4]
    return w * np.repeat(2.0 ** (scales.astype(float) - 127), 32, axis=1)


@dataclass
class PlainModel:
    """`text`: the text config; `tensors`: by the names of the text model, as stored; `switches`: as `--set`."""

    text: dict[str, Any]
    tensors: dict[str, Array]
    dsa: dict[str, Any] | None = None
    switches: dict[str, Any] = field(default_factory=dict)
    out: dict[str, Array] = field(default_factory=dict)
    chosen: dict[int, list[Array]] = field(default_factory=dict)
    read: dict[str, Array] = field(default_factory=dict)
    shared: Array = field(default_factory=lambda: np.zeros(0))

    def w(self, name: str) -> Array:
        if name not in self.read:
            self.read[name] = self.widened(name)
        return self.read[name]

    def widened(self, name: str) -> Array:
        if name + ".weight_packed" in self.tensors:
            return unpacked(self.tensors[name + ".weight_packed"], self.tensors[name + ".weight_scale"])
        return self.tensors.get(name + ".weight", self.tensors.get(name)).astype(np.float64)

    def logits(self, tokens: Array) -> Array:
        t, eps = self.text, self.text["rms_norm_eps"]
        p = self.w("model.embed_tokens")[tokens]
        blocks: list[Array] = []
        size = t.get("attn_res_block_size")
        for n in range(t["num_hidden_layers"]):
            base = f"model.layers.{n}"
            h = self.mix(blocks, p, f"{base}.self_attention_res") if size and blocks else p
            fresh = bool(size) and n % size == 0
            if fresh:
                blocks.append(p)
            x = rms(h, self.w(f"{base}.input_layernorm"), eps)
            full = n + 1 in t["linear_attn_config"]["full_attn_layers"]
            a = self.mla(n, x) if full else self.kda(n, x)
            p = a if fresh else p + a
            h = self.mix(blocks, p, f"{base}.mlp_res") if size else p
            m = self.feed(n, rms(h, self.w(f"{base}.post_attention_layernorm"), eps))
            p = p + m
            self.out[f"layers.{n}.attn_out"], self.out[f"layers.{n}.mlp_out"] = a, m
        y = self.mix(blocks, p, "model.output_attn_res") if size else p
        head = "model.embed_tokens" if t.get("tie_word_embeddings") else "lm_head"
        return rms(y, self.w("model.norm"), eps) @ self.w(head).T

    def mix(self, blocks: list[Array], p: Array, base: str) -> Array:
        values = np.stack([*blocks, p])
        query = self.w(f"{base}_norm") * self.w(f"{base}_proj").reshape(-1)
        keys = values / np.sqrt((values**2).mean(-1, keepdims=True) + self.text["rms_norm_eps"])
        score = keys @ query
        e = np.exp(score - score.max(0))
        return ((e / e.sum(0))[..., None] * values).sum(0)

    def kda(self, n: int, x: Array) -> Array:
        c = self.text["linear_attn_config"]
        heads, dim, taps, count = c["num_heads"], c["head_dim"], c["short_conv_kernel_size"], x.shape[0]
        base = f"model.layers.{n}.self_attn."

        def conv(name: str) -> Array:
            u = np.concatenate([np.zeros((taps - 1, heads * dim)), x @ self.w(f"{base}{name}_proj").T])
            kernel = self.w(f"{base}{name}_conv1d").reshape(-1, taps)
            y = sum(u[j : j + count] * kernel[:, j] for j in range(taps))
            return (y * sigmoid(y)).reshape(count, heads, dim)

        q, k, v = conv("q"), conv("k"), conv("v")
        q, k = (z / np.sqrt((z * z).sum(-1, keepdims=True) + 1e-6) for z in (q, k))
        q = q * dim**-0.5
        f = x @ self.w(base + "f_a_proj").T @ self.w(base + "f_b_proj").T + self.w(base + "dt_bias")
        rate = np.exp(self.w(base + "A_log").reshape(-1)[:heads])[:, None]
        f = f.reshape(count, heads, dim)
        bound = c.get("gate_lower_bound")
        g = bound * sigmoid(rate * f) if bound is not None else -rate * np.logaddexp(0, f)
        beta = sigmoid(x @ self.w(base + "b_proj").T)
        state, o = np.zeros((heads, dim, dim)), np.zeros((count, heads, dim))
        for t in range(count):
            state = np.exp(g[t])[:, :, None] * state
            u = beta[t][:, None] * (v[t] - np.einsum("hkv,hk->hv", state, k[t]))
            state = state + k[t][:, :, None] * u[:, None, :]
            o[t] = np.einsum("hkv,hk->hv", state, q[t])
        o = rms(o, self.w(base + "o_norm"), self.text["rms_norm_eps"]).reshape(count, -1)
        low = base + "g_a_proj.weight" in self.tensors
        gate = (
            x @ self.w(base + "g_a_proj").T @ self.w(base + "g_b_proj").T
            if low
            else x @ self.w(base + "g_proj").T
        )
        return (o * sigmoid(gate)) @ self.w(base + "o_proj").T

    def mla(self, n: int, x: Array) -> Array:
        t, count = self.text, x.shape[0]
        base = f"model.layers.{n}.self_attn."
        eps = self.switches.get("latent_norm_eps", 1e-6)
        heads, nope, pe, v_dim = (
            t["num_attention_heads"], t["qk_nope_head_dim"], t["qk_rope_head_dim"], t["v_head_dim"]
        )  # fmt: skip
        r = x
        if t.get("q_lora_rank"):
            r = rms(x @ self.w(base + "q_a_proj").T, self.w(base + "q_a_layernorm"), eps)
        q = r @ self.w(base + ("q_b_proj" if t.get("q_lora_rank") else "q_proj")).T
        q = q.reshape(count, heads, nope + pe)
        kv = x @ self.w(base + "kv_a_proj_with_mqa").T
        latent, shared = kv[:, : t["kv_lora_rank"]], kv[:, t["kv_lora_rank"] :]
        c = rms(latent, self.w(base + "kv_a_layernorm"), eps)
        up = (c @ self.w(base + "kv_b_proj").T).reshape(count, heads, nope + v_dim)
        k = np.concatenate([up[:, :, :nope], np.repeat(shared[:, None], heads, 1)], -1)
        score = np.einsum("thd,shd->hts", q, k) * (nope + pe) ** -0.5
        allowed = np.tril(np.ones((count, count), bool))
        if self.dsa is not None and n + 1 in self.dsa["dsa_layers"]:
            allowed = self.selection(n, x, r)
        score = np.where(allowed, score, -np.inf)
        e = np.exp(score - score.max(-1, keepdims=True))
        o = np.einsum("hts,shd->thd", e / e.sum(-1, keepdims=True), up[:, :, nope:]).reshape(count, -1)
        if t.get("mla_use_output_gate"):
            o = o * sigmoid(x @ self.w(base + "g_proj").T)
        return o @ self.w(base + "o_proj").T

    def selection(self, n: int, x: Array, r: Array) -> Array:
        assert self.dsa is not None
        heads, dim, top = (self.dsa[k] for k in ("index_n_heads", "index_head_dim", "index_topk"))
        base = f"model.layers.{n}.self_attn.indexer."
        if base + "wk.weight" not in self.tensors:
            return self.shared
        z = x @ self.w(base + "wk").T
        eps = self.switches.get("index_norm_eps", self.text["rms_norm_eps"])
        z = z - z.mean(-1, keepdims=True)
        k = z / np.sqrt((z * z).mean(-1, keepdims=True) + eps) * self.w(base + "k_norm")
        if base + "k_norm.bias" in self.tensors and self.switches.get("index_norm_bias", True):
            k = k + self.w(base + "k_norm.bias")
        q = (r @ self.w(base + "wq_b").T).reshape(-1, heads, dim)
        if rope := self.switches.get("index_rope_dim"):
            q, k = self.rotated(q, rope), self.rotated(k[:, None], rope)[:, 0]
        w = x @ self.w(base + "weights_proj").T
        score = (
            np.einsum("th,ths->ts", w, np.maximum(np.einsum("thd,sd->ths", q, k), 0)) * (heads * dim) ** -0.5
        )
        allowed = np.zeros(score.shape, bool)
        self.chosen[n] = []
        for t in range(score.shape[0]):
            order = np.argsort(-score[t, : t + 1], kind="stable")[:top]
            allowed[t, order] = True
            self.chosen[n].append(order)
        self.shared = allowed
        return allowed

    def rotated(self, z: Array, dim: int) -> Array:
        """Halves paired; frequencies of the table that qk_rope_head_dim channels would have."""
        half = dim // 2
        base = self.switches.get("index_rope_theta", 10000.0)
        out = z.copy()
        for t in range(z.shape[0]):
            for i in range(half):
                angle = t * base ** (-2 * i / self.text["qk_rope_head_dim"])
                a, b = z[t, :, i], z[t, :, half + i]
                out[t, :, i] = a * np.cos(angle) - b * np.sin(angle)
                out[t, :, half + i] = b * np.cos(angle) + a * np.sin(angle)
        return out

    def act(self, gate: Array, up: Array) -> Array:
        t = self.text
        if t["hidden_act"] != "situ":
            return gate * sigmoid(gate) * up
        beta, limit = t["activation_situ_beta"], t.get("activation_situ_linear_beta")
        return (
            beta
            * np.tanh(gate / beta)
            * sigmoid(gate)
            * (up if limit is None else limit * np.tanh(up / limit))
        )

    def mlp(self, base: str, x: Array) -> Array:
        gate, up, down = (self.w(f"{base}.{n}_proj") for n in ("gate", "up", "down"))
        return self.act(x @ gate.T, x @ up.T) @ down.T

    def feed(self, n: int, x: Array) -> Array:
        t = self.text
        base = f"model.layers.{n}.block_sparse_moe"
        first, every = t.get("first_k_dense_replace", 0), t.get("moe_layer_freq", 1)
        if not t.get("num_experts") or n < first or n % every:
            dense = f"model.layers.{n}.mlp"
            return self.mlp(dense if f"{dense}.gate_proj.weight" in self.tensors else base, x)
        s = sigmoid(x @ self.w(f"{base}.gate").T)
        choice = s + self.w(f"{base}.gate.e_score_correction_bias")
        groups, kept = t.get("num_expert_group", 1), t.get("topk_group", 1)
        z = x @ self.w(f"{base}.routed_expert_down_proj").T if t.get("routed_expert_hidden_size") else x
        total = np.zeros(z.shape)
        for row in range(x.shape[0]):
            scores = choice[row].copy()
            if groups > kept and t.get("use_grouped_topk", True):
                by_group = scores.reshape(groups, -1)
                rank = np.argsort(-np.sort(by_group, 1)[:, -2:].sum(1), kind="stable")
                by_group[rank[kept:]] = -np.inf
            ids = np.argsort(-scores, kind="stable")[: t["num_experts_per_token"]]
            weight = s[row, ids]
            if t.get("moe_renormalize", True):
                weight = weight / (weight.sum() + 1e-20)
            for e, share in zip(ids, weight * t["routed_scaling_factor"], strict=True):
                w1, w2, w3 = (self.w(f"{base}.experts.{e}.w{i}") for i in (1, 2, 3))
                total[row] += share * (w2 @ self.act(w1 @ z[row], w3 @ z[row]))
        if t.get("routed_expert_hidden_size"):
            if t.get("latent_moe_use_norm", True):
                total = rms(total, self.w(f"{base}.routed_expert_norm"), t["rms_norm_eps"])
            total = total @ self.w(f"{base}.routed_expert_up_proj").T
        return total + self.mlp(f"{base}.shared_experts", x) if t.get("num_shared_experts") else total
