// Kimi delta attention, one head at a time.
//
// Decode: one pass over the state gathers k'DS and q'DS, a second one (out of the second cache) writes
// DS + k u'.
//
// Prefill: the state is kept as S~ = S / D, where D is the product of the decays since the last anchor, so that
// decaying costs nothing: with k^ = k D, q^ = q D, k~ = k / D the recurrence is S~ += k~ u'. Up to four tokens
// form a group: one pass applies the updates of the group before and gathers k^'S~ and q^'S~ of this one; what
// the tokens of a group do to each other is a triangle of dot products. Before any D would fall below kSmallest
// (or every `chunk` tokens) the state is multiplied by D and D starts again at one, inside the same pass; so a
// decay of any size is safe, e^-125 in one step included.
#include "../native/lanes.h"
#include "../native/whimbrel.h"

namespace {

constexpr int kGroup = 4;
constexpr int kVectors = W == 16 ? 2 : 1;
constexpr int64_t kSlice = kVectors * W;  // columns of the state that stay in the first cache
constexpr int64_t kSegment = 64;          // tokens prepared at once; also the longest way between anchors
constexpr int64_t kTerms = 32;            // products added up in one go: sums of sums lose less
constexpr int64_t kAhead = 4;             // tokens whose keys are fetched ahead
constexpr float kSmallest = 1e-18f;

static inline vf load_some(const float* from, int64_t n) {
    if (n >= W) return load(from);
    float part[W] = {};
    for (int64_t i = 0; i < n; ++i) part[i] = from[i];
    return load(part);
}

static inline void store_some(float* to, vf value, int64_t n) {
    if (n >= W) return store(to, value);
    float part[W];
    store(part, value);
    for (int64_t i = 0; i < n; ++i) to[i] = part[i];
}

static inline void fetch(const float* from, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) __builtin_prefetch(from + i);
}

// --- decode --------------------------------------------------------------------------------------------------

template <int V>
static void decode_columns(float* state, int64_t stride, int64_t keys, const float* decay, const float* k, const float* kd,
                           const float* qd, float qk, float beta, const float* v, float* out) {
    vf from_k[V] = {}, from_q[V] = {};
    for (int64_t start = 0; start < keys; start += kTerms) {
        vf near_k[V] = {}, near_q[V] = {};
        for (int64_t r = start; r < least(keys, start + kTerms); ++r) {
            const vf a = all(kd[r]), b = all(qd[r]);
            const float* row = state + r * stride;
#pragma GCC unroll 8
            for (int i = 0; i < V; ++i) {
                const vf s = load(row + i * W);
                near_k[i] += a * s;
                near_q[i] += b * s;
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < V; ++i) from_k[i] += near_k[i], from_q[i] += near_q[i];
    }
    vf u[V];
#pragma GCC unroll 8
    for (int i = 0; i < V; ++i) {
        u[i] = beta * (load(v + i * W) - from_k[i]);
        store(out + i * W, from_q[i] + qk * u[i]);
    }
    for (int64_t r = 0; r < keys; ++r) {
        const vf d = all(decay[r]), a = all(k[r]);
        float* row = state + r * stride;
        // The next head's, for writing, while this one comes out of the second cache.
        for (int i = 0; i < V * W; i += 16) __builtin_prefetch(row + keys * stride + i, 1, 2);
#pragma GCC unroll 8
        for (int i = 0; i < V; ++i) store(row + i * W, load(row + i * W) * d + a * u[i]);
    }
}

static void decode_head(float* state, int64_t keys, int64_t values, const float* q, const float* k, const float* v,
                        const float* g, float beta, float* out, float* room) {
    float *decay = room, *kd = room + up(keys, W), *qd = kd + up(keys, W);
    float qk = 0;
    for (int64_t r = 0; r < keys; r += W) {
        const vf d = exp_down(load_some(g + r, keys - r));
        const vf kv = load_some(k + r, keys - r), qv = load_some(q + r, keys - r);
        store(decay + r, d);
        store(kd + r, kv * d);
        store(qd + r, qv * d);
        qk += sum(kv * qv);
    }
    int64_t c = 0;
    constexpr int kWide = W == 16 ? 8 : 4;
    for (; c + kWide * W <= values; c += kWide * W)
        decode_columns<kWide>(state + c, values, keys, decay, k, kd, qd, qk, beta, v + c, out + c);
    for (; c + W <= values; c += W) decode_columns<1>(state + c, values, keys, decay, k, kd, qd, qk, beta, v + c, out + c);
    for (; c < values; ++c) {
        float a = 0, b = 0;
        for (int64_t r = 0; r < keys; ++r) a += kd[r] * state[r * values + c], b += qd[r] * state[r * values + c];
        const float u = beta * (v[c] - a);
        out[c] = b + qk * u;
        for (int64_t r = 0; r < keys; ++r) state[r * values + c] = state[r * values + c] * decay[r] + k[r] * u;
    }
}

// --- prefill -------------------------------------------------------------------------------------------------

// A group of tokens, ready for the passes. K: the room for key channels.
template <int K>
struct Group {
    float kd[kGroup][K], qd[kGroup][K], ku[kGroup][K];  // k^, q^, k~
    float anchor[K];                                    // what the state is multiplied with first
    float a[kGroup][kGroup], p[kGroup][kGroup], beta[kGroup];
    int tokens;
    bool anchored;
};

// Tokens as they lie in memory: of one head, `stride` values apart.
struct Tokens {
    const float *q, *k, *v, *g, *beta;
    float* out;
    int64_t heads, keys, values;
};

template <int K>
static void begin_group(Group<K>& group) {
    std::memset(&group, 0, sizeof group);
}

template <int K>
static void finish_group(Group<K>& group, int64_t keys) {
    for (int j = 0; j < group.tokens; ++j)
        for (int i = 0; i <= j; ++i) {
            vf a = {}, p = {};
            for (int64_t r = 0; r < keys; r += W) {
                const vf other = load(group.ku[i] + r);
                a += load(group.kd[j] + r) * other;
                p += load(group.qd[j] + r) * other;
            }
            group.a[j][i] = sum(a);
            group.p[j][i] = sum(p);
        }
}

// Prepares tokens [begin, end) as groups; `left` receives the D that the state must be multiplied with at the
// end. Returns the number of groups.
template <int K>
static int64_t prepare(const Tokens& in, int64_t begin, int64_t end, int64_t chunk, int64_t most, Group<K>* groups, float* left) {
    int64_t count = 0, since = 0;
    float next[K];
    for (int r = 0; r < K; ++r) left[r] = 1;
    for (int64_t t = begin; t < end; ++t) {
        const float* g = in.g + t * in.heads * in.keys;
        // The tokens of one head lie far apart: no hardware foresees them.
        if (t + kAhead < end) {
            const int64_t next_keys = (t + kAhead) * in.heads * in.keys;
            fetch(in.g + next_keys, in.keys);
            fetch(in.k + next_keys, in.keys);
            fetch(in.q + next_keys, in.keys);
        }
        fetch(in.v + t * in.heads * in.values, in.values);
        vf least_seen = all(1.0f);
        for (int64_t r = 0; r < in.keys; r += W) {
            const vf d = load(left + r) * exp_down(load_some(g + r, in.keys - r));
            store(next + r, d);
            least_seen = d < least_seen ? d : least_seen;
        }
        bool small = false;
        for (int i = 0; i < W; ++i) small = small || least_seen[i] < kSmallest;
        const bool anchor = small || since == chunk;
        if (!count || anchor || groups[count - 1].tokens == most) {
            if (count) finish_group(groups[count - 1], in.keys);
            begin_group(groups[count++]);
        }
        Group<K>& group = groups[count - 1];
        if (anchor) {
            group.anchored = true;
            std::memcpy(group.anchor, next, sizeof next);
            for (int r = 0; r < K; ++r) next[r] = 1;
            since = 0;
        }
        const float *q = in.q + t * in.heads * in.keys, *k = in.k + t * in.heads * in.keys;
        const int j = group.tokens++;
        group.beta[j] = in.beta[t * in.heads];
        for (int64_t r = 0; r < in.keys; r += W) {
            const vf d = load(next + r), kv = load_some(k + r, in.keys - r);
            store(left + r, d);
            store(group.kd[j] + r, kv * d);
            store(group.qd[j] + r, load_some(q + r, in.keys - r) * d);
            store(group.ku[j] + r, kv / d);
        }
        ++since;
    }
    if (count) finish_group(groups[count - 1], in.keys);
    return count;
}

// state [keys, kSlice]: applies `before`'s updates u and the anchor, and takes `now` a step: `wide` has its values
// and receives its output, u its updates.
template <int K, int B, int N, bool ANCHOR>
static void pass(float* state, int64_t keys, const Group<K>& before, vf (&u)[kGroup][kVectors], const Group<K>& now,
                 vf* wide) {
    vf update[B][kVectors], a[N][kVectors] = {}, b[N][kVectors] = {};
#pragma GCC unroll 4
    for (int j = 0; j < B; ++j)
#pragma GCC unroll 2
        for (int i = 0; i < kVectors; ++i) update[j][i] = u[j][i];
    for (int64_t start = 0; start < keys; start += kTerms) {
        vf near_a[N][kVectors] = {}, near_b[N][kVectors] = {};
        for (int64_t r = start; r < least(keys, start + kTerms); ++r, state += kSlice) {
            vf s[kVectors];
#pragma GCC unroll 2
            for (int i = 0; i < kVectors; ++i) s[i] = load(state + i * W);
#pragma GCC unroll 4
            for (int j = 0; j < B; ++j) {
                const vf value = all(before.ku[j][r]);
#pragma GCC unroll 2
                for (int i = 0; i < kVectors; ++i) s[i] += value * update[j][i];
            }
            if (ANCHOR) {
                const vf value = all(now.anchor[r]);
#pragma GCC unroll 2
                for (int i = 0; i < kVectors; ++i) s[i] *= value;
            }
#pragma GCC unroll 2
            for (int i = 0; i < kVectors; ++i) store(state + i * W, s[i]);
#pragma GCC unroll 4
            for (int j = 0; j < N; ++j) {
                const vf left = all(now.kd[j][r]), right = all(now.qd[j][r]);
#pragma GCC unroll 2
                for (int i = 0; i < kVectors; ++i) {
                    near_a[j][i] += left * s[i];
                    near_b[j][i] += right * s[i];
                }
            }
        }
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j)
#pragma GCC unroll 2
            for (int i = 0; i < kVectors; ++i) a[j][i] += near_a[j][i], b[j][i] += near_b[j][i];
    }
    // What the tokens of the group do to each other; out = q'S + sum of p u.
#pragma GCC unroll 2
    for (int i = 0; i < kVectors; ++i) {
        vf step[N];
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) {
            vf value = wide[j * kVectors + i] - a[j][i], result = b[j][i];
#pragma GCC unroll 4
            for (int m = 0; m < j; ++m) {
                value -= now.a[j][m] * step[m];
                result += now.p[j][m] * step[m];
            }
            step[j] = value * now.beta[j];
            u[j][i] = step[j];
            wide[j * kVectors + i] = result + now.p[j][j] * step[j];
        }
    }
}

template <int K, int B, int N>
static void pass_of(float* state, int64_t keys, const Group<K>& before, vf (&u)[kGroup][kVectors],
                    const Group<K>& now, vf* wide) {
    if (now.anchored)
        pass<K, B, N, true>(state, keys, before, u, now, wide);
    else
        pass<K, B, N, false>(state, keys, before, u, now, wide);
}

// Columns [column, column + kSlice) of one head through all groups; the first token of the first group is `t`.
template <int K>
static void run_slice(float* whole, const Tokens& in, int64_t column, int64_t t, const Group<K>* groups, int64_t count,
                      const float* left, float* state) {
    const int64_t here = least(kSlice, in.values - column);
    for (int64_t r = 0; r < in.keys; ++r)
        for (int i = 0; i < kVectors; ++i)
            store(state + r * kSlice + i * W, here > i * W ? load_some(whole + r * in.values + column + i * W, here - i * W) : vf{});
    vf u[kGroup][kVectors] = {};
    static const Group<K> kNone = {};
    const Group<K>* before = &kNone;
    for (int64_t n = 0; n < count; ++n) {
        const Group<K>& now = groups[n];
        vf wide[kGroup * kVectors] = {};
        const int64_t at = t * in.heads * in.values + column, stride = in.heads * in.values;
        for (int j = 0; j < now.tokens; ++j)
            for (int i = 0; i < kVectors && here > i * W; ++i)
                wide[j * kVectors + i] = load_some(in.v + at + j * stride + i * W, here - i * W);
        if (now.tokens == 1) {
            if (before->tokens <= 1)
                pass_of<K, 1, 1>(state, in.keys, *before, u, now, wide);
            else
                pass_of<K, kGroup, 1>(state, in.keys, *before, u, now, wide);
        } else {
            if (before->tokens <= 1)
                pass_of<K, 1, kGroup>(state, in.keys, *before, u, now, wide);
            else
                pass_of<K, kGroup, kGroup>(state, in.keys, *before, u, now, wide);
        }
        for (int j = 0; j < now.tokens; ++j)
            for (int i = 0; i < kVectors && here > i * W; ++i)
                store_some(in.out + at + j * stride + i * W, wide[j * kVectors + i], here - i * W);
        t += now.tokens;
        before = &now;
    }
    for (int64_t r = 0; r < in.keys; ++r)
        for (int i = 0; i < kVectors && here > i * W; ++i) {
            vf s = load(state + r * kSlice + i * W);
            for (int j = 0; j < before->tokens; ++j) s += before->ku[j][r] * u[j][i];
            store_some(whole + r * in.values + column + i * W, s * left[r], here - i * W);
        }
}

template <int K>
static bool prefill_head(float* state, const Tokens& in, int64_t tokens, int64_t chunk, int64_t most) {
    const int64_t bytes = kSegment * sizeof(Group<K>);
    char* room = static_cast<char*>(whimbrel::scratch(4, bytes + K * 4 + K * kSlice * 4));
    if (!room) return false;
    Group<K>* groups = reinterpret_cast<Group<K>*>(room);
    float* left = reinterpret_cast<float*>(room + bytes);
    for (int64_t begin = 0; begin < tokens; begin += kSegment) {
        const int64_t end = least(tokens, begin + kSegment);
        const int64_t count = prepare<K>(in, begin, end, chunk, most, groups, left);
        for (int64_t column = 0; column < in.values; column += kSlice)
            run_slice<K>(state, in, column, begin, groups, count, left, left + K);
    }
    return true;
}

}  // namespace

namespace whimbrel::WHIMBREL_VARIANT {

void kda_decode(float* state, const float* q, const float* k, const float* v, const float* g, const float* beta,
                float* out, int64_t heads, int64_t keys, int64_t values, int* failed) {
    parallel(heads, 1, [&](int64_t from, int64_t to) {
        float* room = static_cast<float*>(scratch(4, 3 * up(keys, W) * 4));
        if (!room) {
            *failed = 1;
            return;
        }
        for (int64_t h = from; h < to; ++h)
            decode_head(state + h * keys * values, keys, values, q + h * keys, k + h * keys, v + h * values, g + h * keys,
                        beta[h], out + h * values, room);
    });
}

// keys <= 512. chunk: tokens between anchors; most: tokens in a group, 1 for the plain recurrence.
void kda_prefill(float* state, const float* q, const float* k, const float* v, const float* g, const float* beta,
                 float* out, int64_t tokens, int64_t heads, int64_t keys, int64_t values, int64_t chunk, int64_t most,
                 int* failed) {
    if (most > kGroup) most = kGroup;
    parallel(heads, 1, [&](int64_t from, int64_t to) {
        for (int64_t h = from; h < to; ++h) {
            const Tokens in{q + h * keys, k + h * keys, v + h * values, g + h * keys, beta + h, out + h * values, heads, keys, values};
            float* own = state + h * keys * values;
            if (!(keys <= 128 ? prefill_head<128>(own, in, tokens, chunk, most) : prefill_head<512>(own, in, tokens, chunk, most)))
                *failed = 1;
        }
    });
}

}  // namespace whimbrel::WHIMBREL_VARIANT
