"""PyTorch's eager time of what `bench/gpu --only=layers` measures, as its lines.

    python3 torch_layer.py

A transformer block as GPT-2's small one has it, forward and backward, on a batch of
16 examples of 512 places, weights of float32, on the first GPU. run.sh runs it where
there is PyTorch.
"""

import json
import statistics
import time

import torch

EXAMPLES, PLACES, WIDTH, HEADS = 16, 512, 768, 12
FORMATS = {"fp32": None, "tf32": None, "bf16": torch.bfloat16,
           "fp16": torch.float16}


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first_norm = torch.nn.LayerNorm(WIDTH)
        self.attention = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = torch.nn.Linear(WIDTH, WIDTH)
        self.second_norm = torch.nn.LayerNorm(WIDTH)
        self.wide = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        heads = self.attention(self.first_norm(x))
        query, key, value = heads.view(
            EXAMPLES, PLACES, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(x.shape))
        wide = torch.nn.functional.gelu(self.wide(self.second_norm(x)))
        return x + self.narrow(wide)


def milliseconds(name, kind):
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    block = Block().cuda()
    x = torch.randn(EXAMPLES, PLACES, WIDTH, device="cuda", requires_grad=True)
    gradient = torch.randn_like(x)

    def run(times):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(times):
            with torch.autocast("cuda", dtype=kind, enabled=kind is not None):
                y = block(x)
            y.backward(gradient.to(y.dtype))
            block.zero_grad(set_to_none=True)
            x.grad = None
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - begin) / times

    run(3)
    return [run(10) for _ in range(5)]


def main():
    for name, kind in FORMATS.items():
        values = milliseconds(name, kind)
        print(json.dumps({
            "bench": "torch", "metric": "gpt_layer_%s.ms" % name, "unit": "ms",
            "value": statistics.median(values), "low": min(values),
            "high": max(values)}), flush=True)


if __name__ == "__main__":
    main()
