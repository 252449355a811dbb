#!/usr/bin/env python3
"""A second implementation of DeepSeek-V3, on numbers one by one, that makes the expected values of
tests/data/reference/tiny_deepseek*: for each folder given, from its config.json, random weights and
tokens, the loss and its gradient by every weight, in double precision.

    tests/reference/deepseek.py tests/data/reference/tiny_deepseek

Written after the class of Hugging Face transformers (modeling_deepseek_v3.py and
modeling_rope_utils.py), after arXiv 2412.19437 the loss of uneven choices (equations 17 to 20) and
layers that predict further tokens (21 to 25); gradients by reverse differentiation of the same lines, checked here
against central differences. Needs nothing but Python.
"""
import json
import math
import random
import struct
import sys

BATCH, LENGTH, SEED = 2, 16, 18
BIAS = "mlp.gate.e_score_correction_bias"


def stored(name):
    return name if name.endswith(BIAS) else name + ".weight"


class Number:
    """A number that knows what it was made from: [(Number, derivative)]."""

    __slots__ = ("value", "made_from", "slope")

    def __init__(self, value, made_from=()):
        self.value, self.made_from, self.slope = value, made_from, 0.0

    def __add__(self, other):
        return Number(self.value + other.value, ((self, 1.0), (other, 1.0)))

    def __mul__(self, other):
        if not isinstance(other, Number):
            return Number(self.value * other, ((self, other),))
        return Number(self.value * other.value, ((self, other.value), (other, self.value)))

    def map(self, value, slope):
        return Number(value, ((self, slope),))


def total(numbers):
    return Number(sum(n.value for n in numbers), tuple((n, 1.0) for n in numbers))


def dot(a, b):
    value = sum(x.value * y.value for x, y in zip(a, b))
    made_from = [(x, y.value) for x, y in zip(a, b)] + [(y, x.value) for x, y in zip(a, b)]
    return Number(value, tuple(made_from))


def linear(rows, x):
    return [dot(row, x) for row in rows]


def sigmoid(x):
    s = 1 / (1 + math.exp(-x.value))
    return x.map(s, s * (1 - s))


def silu(x):
    s = 1 / (1 + math.exp(-x.value))
    return x.map(x.value * s, s + x.value * s * (1 - s))


def inverse(x):
    return x.map(1 / x.value, -1 / x.value ** 2)


def softmax(scores):
    most = max(s.value for s in scores)
    powers = [s.map(math.exp(s.value - most), math.exp(s.value - most)) for s in scores]
    share = inverse(total(powers))
    return [p * share for p in powers]


def norm(x, gain, epsilon):
    mean = dot(x, x) * (1 / len(x))
    root = mean.map((mean.value + epsilon) ** -0.5, -0.5 * (mean.value + epsilon) ** -1.5)
    return [g * (v * root) for v, g in zip(x, gain)]


def slopes_of(result):
    """Goes back from the result through everything it was made from."""
    order, seen, stack = [], set(), [(result, False)]
    while stack:
        number, done = stack.pop()
        if done:
            order.append(number)
        elif id(number) not in seen:
            seen.add(id(number))
            stack.append((number, True))
            stack.extend((parent, False) for parent, _ in number.made_from)
    result.slope = 1.0
    for number in reversed(order):
        for parent, derivative in number.made_from:
            parent.slope += number.slope * derivative


class Rope:
    def __init__(self, c):
        scaling, dim, base = c["rope_scaling"], c["qk_rope_head_dim"], c["rope_theta"]
        factor, old = scaling["factor"], scaling["original_max_position_embeddings"]

        def sharpening(scale, share):
            return 1.0 if scale <= 1 else 0.1 * share * math.log(scale) + 1.0

        def pair(turns):
            return dim * math.log(old / (turns * 2 * math.pi)) / (2 * math.log(base))

        low = max(math.floor(pair(scaling["beta_fast"])), 0)
        high = min(math.ceil(pair(scaling["beta_slow"])), dim - 1)
        high += 0.001 if low == high else 0
        self.frequencies = []
        for i in range(dim // 2):
            ramp = min(max((i - low) / (high - low), 0), 1)
            plain = base ** (-2 * i / dim)
            self.frequencies.append(plain / factor * ramp + plain * (1 - ramp))
        self.factor = sharpening(factor, scaling["mscale"]) / sharpening(
            factor, scaling["mscale_all_dim"])
        self.score_scale = ((c["qk_nope_head_dim"] + dim) ** -0.5
                            * sharpening(factor, scaling["mscale_all_dim"]) ** 2)

    def turn(self, x, position):
        # Even entries first, then the odd ones; then halves turn together.
        x = x[0::2] + x[1::2]
        half = len(x) // 2
        y = [None] * len(x)
        for i, frequency in enumerate(self.frequencies):
            cosine = math.cos(position * frequency) * self.factor
            sine = math.sin(position * frequency) * self.factor
            y[i] = x[i] * cosine + x[i + half] * -sine
            y[i + half] = x[i + half] * cosine + x[i] * sine
        return y


def attention(c, w, rope, xs):
    heads, nope, turned = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"]
    size, value = nope + turned, c["v_head_dim"]
    queries, keys, values = [], [], []
    for position, x in enumerate(xs):
        latent = norm(linear(w["self_attn.q_a_proj"], x), w["self_attn.q_a_layernorm"], 1e-6)
        q = linear(w["self_attn.q_b_proj"], latent)
        down = linear(w["self_attn.kv_a_proj_with_mqa"], x)
        latent = norm(down[:c["kv_lora_rank"]], w["self_attn.kv_a_layernorm"], 1e-6)
        shared = rope.turn(down[c["kv_lora_rank"]:], position)
        up = linear(w["self_attn.kv_b_proj"], latent)
        queries.append([q[h * size:h * size + nope]
                        + rope.turn(q[h * size + nope:(h + 1) * size], position)
                        for h in range(heads)])
        up = [up[h * (nope + value):(h + 1) * (nope + value)] for h in range(heads)]
        keys.append([one[:nope] + shared for one in up])
        values.append([one[nope:] for one in up])
    results = []
    for i in range(len(xs)):
        joined = []
        for h in range(heads):
            share = softmax([dot(queries[i][h], keys[j][h]) * rope.score_scale
                             for j in range(i + 1)])
            joined += [dot(share, [values[j][h][d] for j in range(i + 1)]) for d in range(value)]
        results.append(linear(w["self_attn.o_proj"], joined))
    return results


def feed_forward(w, prefix, x):
    gate, up = linear(w[prefix + "gate_proj"], x), linear(w[prefix + "up_proj"], x)
    return linear(w[prefix + "down_proj"], [silu(g) * u for g, u in zip(gate, up)])


def choose(c, w, scores):
    """The bias has a say in who is chosen, and in nothing else."""
    groups, count = c["n_group"], c["n_routed_experts"] // c["n_group"]
    bias = w.get(BIAS, [Number(0.0)] * len(scores))
    judged = [s.value + b.value for s, b in zip(scores, bias)]

    def two_best(group):
        return sum(sorted(judged[group * count:(group + 1) * count])[-2:])

    best = sorted(range(groups), key=two_best, reverse=True)[:c["topk_group"]]
    allowed = [e for e in range(len(scores)) if e // count in best]
    chosen = sorted(allowed, key=lambda e: judged[e], reverse=True)
    return chosen[:c["num_experts_per_tok"]]


def experts(c, w, x, routed):
    scores = [sigmoid(s) for s in linear(w["mlp.gate"], x)]
    chosen = choose(c, w, scores)
    routed.append((scores, chosen))
    share = inverse(total([scores[e] for e in chosen]) + Number(1e-20))
    result = feed_forward(w, "mlp.shared_experts.", x)
    for e in chosen:
        weight = scores[e] * share * c["routed_scaling_factor"]
        one = feed_forward(w, f"mlp.experts.{e}.", x)
        result = [r + o * weight for r, o in zip(result, one)]
    return result


def balance_of(c, routed):
    """Of one layer and sequence: arXiv 2412.19437, equations 17 to 20."""
    experts, length = c["n_routed_experts"], len(routed)
    shares = [[s * inverse(total(scores)) for s in scores] for scores, _ in routed]
    parts = []
    for e in range(experts):
        chosen = sum(e in choice for _, choice in routed)
        load = chosen * experts / (c["num_experts_per_tok"] * length)
        parts.append(total([one[e] for one in shares]) * (load / length))
    return total(parts) * c.get("aux_loss_alpha", 0.0)


def excess_of(c, tokens, routed):
    """By how much more than an equal share chose each expert, in units of a power of 2."""
    choices = len(tokens) * len(tokens[0]) * c["num_experts_per_tok"]
    unit = 2.0 ** -math.ceil(math.log2(choices))
    return [(sum(e in choice for _, choice in routed) * c["n_routed_experts"] - choices) * unit
            for e in range(c["n_routed_experts"])]


def layer_of(c, w, rope, xs, dense, routed):
    normed = [norm(x, w["input_layernorm"], c["rms_norm_eps"]) for x in xs]
    xs = [[a + b for a, b in zip(x, y)] for x, y in zip(xs, attention(c, w, rope, normed))]
    normed = [norm(x, w["post_attention_layernorm"], c["rms_norm_eps"]) for x in xs]
    ys = [feed_forward(w, "mlp.", x) if dense else experts(c, w, x, routed) for x in normed]
    return [[a + b for a, b in zip(x, y)] for x, y in zip(xs, ys)]


def token_losses(c, head, gain, xs, labels):
    losses = []
    for x, label in zip(xs, labels):
        share = softmax(linear(head, norm(x, gain, c["rms_norm_eps"])))[label]
        losses.append(share.map(-math.log(share.value), -1 / share.value))
    return losses


def loss_of(c, weights, tokens, routed_by_layer=None):
    rope, losses, balances = Rope(c), [], []
    further = c.get("mtp_num_layers", 0)

    def of_layer(layer):
        start = f"model.layers.{layer}."
        return {k[len(start):]: v for k, v in weights.items() if k.startswith(start)}

    embedding, head, epsilon = weights["model.embed_tokens"], weights["lm_head"], c["rms_norm_eps"]
    for row in tokens:
        xs = [embedding[t] for t in row]
        for layer in range(c["num_hidden_layers"]):
            dense, routed = layer < c["first_k_dense_replace"], []
            xs = layer_of(c, of_layer(layer), rope, xs, dense, routed)
            balances.append(balance_of(c, routed) if routed else Number(0.0))
            if routed_by_layer is not None:
                routed_by_layer.setdefault(layer, []).extend(routed)
        losses += token_losses(c, head, weights["model.norm"], xs, row[1:])
        for ahead in range(1, further + 1):
            w = of_layer(c["num_hidden_layers"] + ahead - 1)
            # Only positions whose token ahead is known: a later one is nobody's business.
            joined = [norm(embedding[t], w["enorm"], epsilon) + norm(x, w["hnorm"], epsilon)
                      for x, t in zip(xs, row[ahead:])]
            xs = layer_of(c, w, rope, [linear(w["eh_proj"], x) for x in joined], dense, [])
            factor = c["mtp_loss_scaling_factor"] / further
            losses += [one * factor for one in token_losses(c, head, w["shared_head.norm"], xs,
                                                            row[ahead + 1:])]
    mean = total(losses) * (1 / (len(tokens) * (len(tokens[0]) - 1)))
    return mean + total(balances) * (1 / len(tokens))


def shapes_of(c):
    hidden, heads, kv = c["hidden_size"], c["num_attention_heads"], c["kv_lora_rank"]
    nope, turned, value = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    shapes = {"model.embed_tokens": [c["vocab_size"], hidden]}

    def add_feed_forward(prefix, width):
        shapes[prefix + "gate_proj"] = shapes[prefix + "up_proj"] = [width, hidden]
        shapes[prefix + "down_proj"] = [hidden, width]

    for layer in range(c["num_hidden_layers"] + c.get("mtp_num_layers", 0)):
        p = f"model.layers.{layer}."
        if layer >= c["num_hidden_layers"]:
            for name in ("enorm", "hnorm", "shared_head.norm"):
                shapes[p + name] = [hidden]
            shapes[p + "eh_proj"] = [hidden, 2 * hidden]
        shapes[p + "input_layernorm"] = shapes[p + "post_attention_layernorm"] = [hidden]
        shapes[p + "self_attn.q_a_proj"] = [c["q_lora_rank"], hidden]
        shapes[p + "self_attn.q_a_layernorm"] = [c["q_lora_rank"]]
        shapes[p + "self_attn.q_b_proj"] = [heads * (nope + turned), c["q_lora_rank"]]
        shapes[p + "self_attn.kv_a_proj_with_mqa"] = [kv + turned, hidden]
        shapes[p + "self_attn.kv_a_layernorm"] = [kv]
        shapes[p + "self_attn.kv_b_proj"] = [heads * (nope + value), kv]
        shapes[p + "self_attn.o_proj"] = [hidden, heads * value]
        if layer < c["first_k_dense_replace"]:
            add_feed_forward(p + "mlp.", c["intermediate_size"])
            continue
        shapes[p + "mlp.gate"] = [c["n_routed_experts"], hidden]
        if c.get("moe_router_bias_update_rate", 0) > 0:
            shapes[p + BIAS] = [c["n_routed_experts"]]
        for e in range(c["n_routed_experts"]):
            add_feed_forward(f"{p}mlp.experts.{e}.", c["moe_intermediate_size"])
        add_feed_forward(p + "mlp.shared_experts.",
                         c["n_shared_experts"] * c["moe_intermediate_size"])
    shapes["model.norm"] = [hidden]
    shapes["lm_head"] = [c["vocab_size"], hidden]
    return shapes


def random_weights(shapes, generator):
    weights = {}
    for name, shape in shapes.items():
        if name.endswith(BIAS):
            weights[name] = [Number(generator.uniform(-0.3, 0.3)) for _ in range(shape[0])]
        elif len(shape) == 1:
            weights[name] = [Number(1 + generator.uniform(-0.3, 0.3)) for _ in range(shape[0])]
        else:
            width = 1.5 / math.sqrt(shape[1])
            weights[name] = [[Number(generator.uniform(-width, width)) for _ in range(shape[1])]
                             for _ in range(shape[0])]
    return weights


def flat(weight):
    return weight if isinstance(weight[0], Number) else [n for row in weight for n in row]


def check_differences(c, weights, tokens, generator):
    worst = 0.0
    for name in sorted(weights):
        if name.endswith(BIAS):
            continue  # it moves choices, which have no slope
        number = generator.choice(flat(weights[name]))
        before, step, ends = number.value, 1e-5, []
        for sign in (1, -1):
            number.value = before + sign * step
            ends.append(loss_of(c, weights, tokens).value)
        number.value = before
        found = (ends[0] - ends[1]) / (2 * step)
        worst = max(worst, abs(found - number.slope) / max(1e-3, abs(number.slope)))
    assert worst < 1e-5, worst
    return worst


def write_safetensors(path, tensors):
    """tensors: name -> (element, shape, values)."""
    header, data = {}, b""
    for name, (element, shape, values) in tensors.items():
        code = {"F64": "d", "I64": "q"}[element]
        part = struct.pack(f"<{len(values)}{code}", *values)
        header[name] = {"dtype": element, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def make(folder):
    with open(folder + "/config.json") as file:
        c = json.load(file)
    generator = random.Random(SEED)
    shapes = shapes_of(c)
    weights = random_weights(shapes, generator)
    tokens = [[generator.randrange(c["vocab_size"]) for _ in range(LENGTH)] for _ in range(BATCH)]
    routed = {}
    loss = loss_of(c, weights, tokens, routed)
    slopes_of(loss)
    worst = check_differences(c, weights, tokens, generator)
    expected = {"input_ids": ("I64", [BATCH, LENGTH], [t for row in tokens for t in row]),
                "loss": ("F64", [1], [loss.value])}
    for name, shape in shapes.items():
        slopes = [n.slope for n in flat(weights[name])]
        if name.endswith(BIAS):
            slopes = excess_of(c, tokens, routed[int(name.split(".")[2])])
        expected["grad." + stored(name)] = ("F64", shape, slopes)
    write_safetensors(folder + "/expected.safetensors", expected)
    write_safetensors(folder + "/model.safetensors",
                      {stored(name): ("F64", shape, [n.value for n in flat(weights[name])])
                       for name, shape in shapes.items()})
    print(f"{folder}: loss {loss.value:.6f}, largest error of a gradient against differences "
          f"{worst:.1e}")


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        make(folder)
