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
MEGATRON_ENERGY = (
    " [2026-02-06 20:55:02.918469] iteration      292/95367431 | consumed samples:         9344 | "
    "elapsed time per iteration (ms): 3075.7 | throughput per GPU (TFLOP/s/GPU): 388.1 | "
    "energy per GPU (J/iter/GPU): 2900.0 | power per GPU (W/GPU): 551.2 | "
    "learning rate: 9.568256E-08 | global batch size:   512 | lm loss: 2.401035E-02 |"
)
LLM_C = (
    "step   10/19560 | loss 9.532 (+nanz)| norm 2.1 (+nanz)| lr 8.57e-06 | 342.11 ms | "
    "{}% bf16 MFU | 1532501 tok/s"
)
NANOCHAT = (
    "step 00050/20000 (0.25%) | loss: 8.966355 | lrm: 0.03 | dt: 487.11ms | "
    "tok/sec: 1,076,334 | {} | epoch: 1 pq: 0 rg: 1 | total time: 0.00m"
)
VERL_WHOLE = "step:66 - actor/lr:3e-06 - perf/time_per_step:31.5 - perf/throughput:1024.5"
VERL = (
    "step:66 - actor/lr:3e-06 - perf/mfu/actor_infer:1.7 - perf/mfu/actor:np.float64(0.0217869) - "
    "perf/time_per_step:31.5 - perf/throughput:1024.5"
)

# line, framework, figures
LINES: list[tuple[str, str, dict[str, float]]] = [
    (
        MEGATRON,
        "megatron-lm",
        {"step_s": 5.3124, "tflops_per_gpu": 401.2, "samples_per_s": 1024 / 5.3124},
    ),
    (
        MEGATRON_SHORT,
        "megatron-lm",
        {"step_s": 5.3124, "samples_per_s": 1024 / 5.3124},
    ),
    (
        MEGATRON_ENERGY,
        "megatron-lm",
        {"step_s": 3.0757, "tflops_per_gpu": 388.1, "samples_per_s": 512 / 3.0757},
    ),
    # Its TFLOPs hold recomputation.
    (
        (
            " iteration 6/ 10 | elapsed time per iteration (ms): 76.5 | global batch size: 4 | "
            "samples per second: 53.753 | tokens per gpu per second (tgs): 1146.733 | "
            "TFLOPs: 69.85 |"
        ),
        "megatron-lm",
        {"step_s": 0.0765, "samples_per_s": 53.753, "tokens_per_s_per_gpu": 1146.733},
    ),
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
    # A hybrid model, which it does not count.
    (
        "Step Time : 5.31s GPU utilization: 0.0MODEL_TFLOP/s/GPU",
        "megatron-bridge",
        {"step_s": 5.31},
    ),
    (
        (
            " iteration 12/ 50 | elapsed time per iteration (ms): 2701.3/2712.7 | "
            "throughput per GPU (TFLOP/s/GPU): 210.5/217.3 | "
            "tokens per GPU (tokens/s/GPU): 12130.4/12525.5 | global batch size: 256 |"
        ),
        "megatron-lm",
        {
            "step_s": 2.7013,
            "tflops_per_gpu": 210.5,
            "tokens_per_s_per_gpu": 12130.4,
            "samples_per_s": 256 / 2.7013,
        },
    ),
    (
        (
            " iteration 12/ 50 | elapsed time per iteration (ms): 2701.3 | "
            "compute per GPU (TFLOP/s/GPU): 615.5 (avg 615.5) | "
            "tokens/s/GPU inst/harmonic mean: 20502.6/20151.0 |"
        ),
        "megatron-lm",
        {"step_s": 2.7013, "tflops_per_gpu": 615.5, "tokens_per_s_per_gpu": 20502.6},
    ),
    (
        "{'loss': 2.58519292, 'memory(GiB)': 11.29, 'train_speed(iter/s)': 0.25, 'epoch': 0.0}",
        "ms-swift",
        {"step_s": 4.0},
    ),
    (
        '{"loss": 1.85694408, "memory(GiB)": 15.83, "train_speed(s/it)": 24.3}',
        "ms-swift",
        {"step_s": 24.3},
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
    (VERL_WHOLE, "verl", {"step_s": 31.5, "tokens_per_s_per_gpu": 1024.5}),
    (
        (
            "03:26:55 [INFO] [TRAIN] [Rank 0] step: 8, loss: 975.9991, "
            "tokens_per_second: 76957.79, mfu: 42.46"
        ),
        "prime-rl",
        {"tokens_per_s": 76957.79, "mfu": 0.4246},
    ),
    (
        (
            "12:00:01 SUCCESS Step 12 | Time: 10.21s | Loss: 0.0412 | Grad. Norm: 0.1 | "
            "LR: 1.00e-06 | Throughput: 76957 tokens/s | MFU: 42.5% | Peak Mem.: 60.1 GiB"
        ),
        "prime-rl",
        {"tokens_per_s": 76957, "mfu": 0.425, "step_s": 10.21},
    ),
    (
        "iter 1: loss 10.9733, time: 9463.66ms, mfu: 3.24%",
        "litgpt",
        {"step_s": 9.46366, "mfu": 0.0324},
    ),
    (
        LLM_C.format("61.2"),
        "llm.c",
        {"step_s": 0.34211, "mfu": 0.612, "tokens_per_s": 1532501},
    ),
    (LLM_C.format("-100.0"), "llm.c", {"step_s": 0.34211, "tokens_per_s": 1532501}),
    (
        "step:125/1393 train_time:18010ms step_avg:156.61ms",
        "modded-nanogpt",
        {"step_s": 0.15661},
    ),
    (
        "step:125/1750 val_loss:4.2887 train_time:12345ms step_avg:98.76ms",
        "modded-nanogpt",
        {"step_s": 0.09876},
    ),
    (
        NANOCHAT.format("bf16_mfu: 37.21"),
        "nanochat",
        {"step_s": 0.48711, "tokens_per_s": 1076334, "mfu": 0.3721},
    ),
    (
        NANOCHAT.format("mfu: 12.3%"),
        "nanochat",
        {"step_s": 0.48711, "tokens_per_s": 1076334, "mfu": 0.123},
    ),
    # A GPU whose peak it does not know.
    (
        NANOCHAT.format("bf16_mfu: 0.00"),
        "nanochat",
        {"step_s": 0.48711, "tokens_per_s": 1076334},
    ),
    (
        (
            "step: 250  acc: 0  loss:  4.2101  grad: 3.10e-01  flops: 3.56e+14  wps: 1.04e+04  "
            "iter:  0.3135  data: 0.0012  lr: 1.00e-03  mem: 61%  pow: 612.3 W"
        ),
        "lingua",
        {"tflops_per_gpu": 356, "tokens_per_s_per_gpu": 10_400},
    ),
    (
        (
            "INFO train.py:323 in record_current_batch_training_metrics -- "
            "tflops=63.27010355651958,step=0,loss=11.634,tgs (tokens/gpu/second)=1424.64,lr=4e-07"
        ),
        "internevo",
        {"tokens_per_s_per_gpu": 1424.64},
    ),
    (
        (
            "2025-12-27 16:05:15 | INFO | root | step 4 | epoch 0 | loss 3.9796 | lr 7.25e-06 | "
            "mem 109.89 GiB | tps 15014.28(1876.79/gpu) | num_label_tokens 524288"
        ),
        "nemo",
        {"tokens_per_s": 15014.28, "tokens_per_s_per_gpu": 1876.79},
    ),
    (
        "    throughput/device/tokens_per_second=45,538",
        "olmo-core",
        {"tokens_per_s_per_gpu": 45538},
    ),
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
    "perf/mfu/actor_infer:nan",
    "perf/mfu/actor:0.0",
    "perf/mfu/:0.4",
    "# expected on 8 GPUs: iter 200: loss 2.1, time 300.1ms, mfu 99.00%",
    "   # iter 200: loss 2.1, time 300.1ms, mfu 99.00%",
    "\ufeff# iter 200: loss 2.1, time 300.1ms, mfu 99.00%",
    # An inference engine's FLOP rate, which it calls MFU.
    "INFO metrics.py MFU: 25.3 TF/s/GPU 100.1 GB/s/GPU",
    "// TFLOPs per sec per GPU=412.70",
    # No speed beside it.
    "iter 7: loss 2.1, time: soon, ms, mfu: later",
    # A micro-batch is no step.
    "Epoch 1 | iter 1 step 0 | loss train: 10.973, val: n/a | iter time: 389.22 ms (step)",
    "step:1/1393 train_time:18ms step_avg:nanms",
    # The source of the program, printed into its log.
    'print0(f"step:{step}/{n} train_time:{t:.0f}ms step_avg:{t/step:.2f}ms")',
    # A notation that is not clear.
    "TFLOPs per sec per GPU=7_123",
    "TFLOPs per sec per GPU=7'123",
    "TFLOPs per sec per GPU=1.234.567",
    "TFLOPs per sec per GPU=00:12",
    "TFLOPs per sec per GPU=1,23,4.5",
    "TFLOPs per sec per GPU=7\u202f123",
    FLOPS_LATENCY.format(5),
]


# line, figures: a decimal comma, as a locale makes it
COMMAS: list[tuple[str, dict[str, float]]] = [
    ("iter 200: loss 2,0000, time 120,10ms, mfu 41,71%", {"step_s": 0.1201, "mfu": 0.4171}),
    ("iter 200: loss 2,0000, time 120,10ms, mfu 41,712%", {"step_s": 0.1201, "mfu": 0.41712}),
    ("iter 9: loss 2,0, time 1.120,10ms, mfu 41,71\u202f%", {"step_s": 1.1201, "mfu": 0.4171}),
    # Thousands or decimals: it cannot be told.
    ("iter 9: loss 2,0, time 1.120ms, mfu 41,71\xa0%", {"mfu": 0.4171}),
    ("iter 9: loss 2,0, time 120,100ms, mfu 41,71 %", {"mfu": 0.4171}),
    ("iter 9: loss 2.0, time 1,120.10ms, mfu 41.71%", {"step_s": 1.1201, "mfu": 0.4171}),
    (
        TITAN.replace("41.71%", "41,71%").replace("412.55", "412,55"),
        {"tflops_per_gpu": 412.55, "mfu": 0.4171},
    ),
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
