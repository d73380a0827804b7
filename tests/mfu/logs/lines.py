"""Lines as frameworks print them, and the figures that they hold."""

from __future__ import annotations

from otel_ofu.mfu.report import JobReport

TITAN = (
    "[titan] 2026-01-01 00:00:00,000 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  4.12345  "
    "\x1b[33mgrad_norm:  1.2345  \x1b[36mmemory: 47.90GiB(60.10%)  \x1b[34mtps: 7,123  "
    "\x1b[36mtflops: 412.55  \x1b[35mmfu: 41.71%\x1b[39m"
)
TITAN_FP8 = (
    "[titan] INFO - step: 10  loss:  4.12345  grad_norm:  1.2345  memory: 47.90GiB(60.10%)  "
    "tps: 7,123  tflops: 412.55  mfu: N/A"
)
MEGATRON = (
    " [2026-01-01 00:00:00.000000] iteration     1200/  500000 | consumed samples:      1228800 | "
    "elapsed time per iteration (ms): 5312.4 | throughput per GPU (TFLOP/s/GPU): 401.2 | "
    "power per GPU (W/GPU): 612.3 | learning rate: 1.000000E-04 | global batch size:  1024 |"
)
MEGATRON_SHORT = (
    " iteration     1200/  500000 | consumed samples:      1228800 | "
    "elapsed time per iteration (ms): 5312.4 | learning rate: 1.0E-4 | global batch size:  1024 |"
)
NANOTRON = (
    "12/21 01:39:51 [INFO|DP=0|TP=0|node-7]: iteration: 211364 / 1500000 | consumed_tokens: 480B | "
    "time_per_iteration_ms: 8.79K | tokens_per_sec: 182K | tokens_per_sec_per_gpu: 699 | "
    "global_batch_size: 1.6M | lm_loss: 2.04 | lr: 0.0001 | model_tflops_per_gpu: 15.4 | "
    "eta: 131 days, 1:45:39"
)
DEEPSPEED = (
    "epoch=0/micro_step=80/global_step=10, RunningAvgSamplesPerSec=51.2, CurrSamplesPerSec=52.1, "
    "MemAllocated=10.0GB, MaxMemAllocated=20GB"
)
FLOPS_LATENCY = (
    "FLOPS per GPU = {} * fwd flops per GPU / iter latency:                   102.0 TFLOPS"
)
VERL = (
    "step:66 - actor/lr:3e-06 - perf/mfu/actor_infer:1.7 - perf/mfu/actor:np.float64(0.0217869) - "
    "perf/time_per_step:31.5 - perf/throughput:1024.5"
)

# line, framework, figures
LINES: list[tuple[str, str, dict[str, float]]] = [
    (MEGATRON, "megatron-lm", {"step_s": 5.3124, "tflops_per_gpu": 401.2}),
    (MEGATRON_SHORT, "megatron-lm", {"step_s": 5.3124}),
    (
        (
            "Saved checkpoint\tIteration: 1200\tJob throughput: 401.2 TFLOP/s/GPU\t"
            "Cumulative throughput: 400.0 TFLOP/s/GPU\t"
        ),
        "megatron-lm",
        {"tflops_per_gpu": 401.2},
    ),
    (
        "Step Time : 5.31s GPU utilization: 412.0MODEL_TFLOP/s/GPU",
        "megatron-bridge",
        {"step_s": 5.31, "tflops_per_gpu": 412.0},
    ),
    ("TFLOPs per sec per GPU=412.70", "nemo", {"tflops_per_gpu": 412.7}),
    (
        "Training epoch 0, iteration 9/99 | train_step_timing in s: 5.25 | TFLOPS_per_GPU: 401.5",
        "nemo",
        {"tflops_per_gpu": 401.5, "step_s": 5.25},
    ),
    ("Epoch 0: 5% | train_step_timing in s=5.250]", "nemo", {"step_s": 5.25}),
    (TITAN, "torchtitan", {"tokens_per_s_per_gpu": 7123, "tflops_per_gpu": 412.55, "mfu": 0.4171}),
    (TITAN_FP8, "torchtitan", {"tokens_per_s_per_gpu": 7123, "tflops_per_gpu": 412.55}),
    (
        "iter 200: loss 2.0000, time 120.10ms, mfu 38.21%",
        "nanogpt",
        {"step_s": 0.1201, "mfu": 0.3821},
    ),
    # Not known yet: the time is there, -100 % is no MFU.
    ("iter 2: loss 9.1, time 4120.10ms, mfu -100.00%", "nanogpt", {"step_s": 4.1201}),
    (
        (
            "completed step: 9, seconds: 24.706, TFLOP/s/device: 332.463, "
            "Tokens/s/device: 1326.307, total_weights: 8388608, loss: 0.045"
        ),
        "maxtext",
        {"step_s": 24.706, "tflops_per_gpu": 332.463, "tokens_per_s_per_gpu": 1326.307},
    ),
    (
        "completed step: 9, seconds: 0.166, TFLOP/s/device: 41.524, loss: nan",
        "maxtext",
        {"step_s": 0.166, "tflops_per_gpu": 41.524},
    ),
    (DEEPSPEED, "deepspeed", {"samples_per_s": 52.1}),
    (FLOPS_LATENCY.format(3), "deepspeed", {"tflops_per_gpu": 102.0}),
    # Recomputation is in this figure: three of its four parts are model FLOPs.
    (FLOPS_LATENCY.format("4.0"), "deepspeed", {"tflops_per_gpu": 76.5}),
    (
        NANOTRON,
        "nanotron",
        {
            "step_s": 8.79,
            "tokens_per_s": 182_000,
            "tokens_per_s_per_gpu": 699,
            "tflops_per_gpu": 15.4,
        },
    ),
    (
        "[Iteration 1200/5000] consumed_tokens: 1.2B | model_tflops_per_gpu: 412 | eta: 1 day",
        "nanotron",
        {"tflops_per_gpu": 412},
    ),
    (VERL, "verl", {"mfu": 0.0217869, "step_s": 31.5, "tokens_per_s_per_gpu": 1024.5}),
    ("\t Train throughput/device/mfu: 0.4123", "composer", {"mfu": 0.4123}),
    ("\t Train throughput/device/flops_per_sec: 4.1e14", "composer", {"tflops_per_gpu": 410}),
    ("    throughput/device/MFU=39.2", "olmo-core", {"mfu": 0.392}),
    ("    throughput/device/TPS=12,345", "olmo-core", {"tokens_per_s_per_gpu": 12345}),
    ("step 7 | train|device/mfu: 0.31", "lightning", {"mfu": 0.31}),
    (
        "Step 10 | loss:1.8 lr:2e-5 tokens_per_second_per_gpu:1234.5 peak_memory_active:20.1",
        "torchtune",
        {"tokens_per_s_per_gpu": 1234.5},
    ),
    (
        "{'loss': 1.1, 'tokens/train_per_sec_per_gpu': '1234.5', 'epoch': 0.1}",
        "axolotl",
        {"tokens_per_s_per_gpu": 1234.5},
    ),
    (
        (
            "{'train_runtime': 169.649, 'train_samples_per_second': 252.02, "
            "'train_steps_per_second': 16.0, 'total_flos': 229537542078168.0}"
        ),
        "transformers",
        {"samples_per_s": 252.02, "step_s": 0.0625},
    ),
    (
        (
            "{'train_runtime': '169.649', 'train_samples_per_second': '252.02', "
            "'train_tokens_per_second': '60076.44'}"
        ),
        "transformers",
        {"samples_per_s": 252.02, "tokens_per_s": 60076.44},
    ),
]

# What looks like a figure and is none.
SILENT = [
    "",
    "loading shard 17 of 512 from https://example.org/data, loss: none, memory: none",
    "TFLOPs per sec per GPU=-1.00",
    "TFLOPs per sec per GPU=nan",
    "TFLOPs per sec per GPU=",
    "iter 2: loss 9.1, time n/ams, mfu -100.00%",
    "completed step: soon, seconds: , TFLOP/s/device: inf",
    "tokens_per_second_per_gpu:" + "9" * 400,
    "perf/mfu/actor_infer:0.4",
    FLOPS_LATENCY.format(5),
]


def figures(report: JobReport) -> dict[str, float]:
    """What a report says, without what it does not."""
    found = {
        "tflops_per_gpu": report.tflops_per_gpu,
        "mfu": report.mfu,
        "tokens_per_s": report.tokens_per_s,
        "tokens_per_s_per_gpu": report.tokens_per_s_per_gpu,
        "samples_per_s": report.samples_per_s,
        "step_s": report.step_s,
    }
    return {name: value for name, value in found.items() if value is not None}
