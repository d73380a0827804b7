"""One matrix product on tensor cores: what it needs, what its kernel executes, what OFU shows.

Enters: a shape, a tile, a precision. Leaves: FLOPs, and the OFU over a time. Kernels compute whole
tiles, so of small or odd shapes OFU shows more than the product needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from otel_ofu.derive.formulas import Shape, tile_quantization

MOST = 1 << 24
"""Starting value: above any side of a matrix, and a product of three stays exact enough."""

DEFAULT_TILE = (128, 256)
"""The large tile that cuBLAS prefers where the matrix is large enough.

Source: NVIDIA Matrix Multiplication Background User's Guide, "Tile Quantization".
"""
TILE_K = {"fp64": 16, "tf32": 32, "bf16": 64, "fp16": 64, "fp8": 128, "int8": 128, "fp4": 256}
"""By precision, the depth of a tile: 128 bytes of a row, as banks of shared memory are wide.

Starting value.
"""


@dataclass(frozen=True, slots=True)
class GemmBreakdown:
    """C = A x B with A of M x K and B of K x N. All sizes from 1 to `MOST`, else ValueError."""

    shape: Shape
    tile: Shape

    def __post_init__(self) -> None:
        for name, sizes in (("sizes", self.shape), ("tile", self.tile)):
            if not all(1 <= size <= MOST for size in sizes):
                shown = "x".join(map(str, sizes))
                raise ValueError(f"{name} {shown}: each must be from 1 to {MOST}")

    @property
    def required_flops(self) -> float:
        """2MNK: what the product needs."""
        m, n, k = self.shape
        return 2.0 * m * n * k

    @property
    def executed_flops(self) -> float:
        """What a kernel of whole tiles does."""
        return self.required_flops * self.quantization

    @property
    def quantization(self) -> float:
        """Executed over required FLOPs, >= 1; OFU divided by it is what the product amounts to."""
        return tile_quantization(self.shape, self.tile)

    def ofu(self, peak_flops: float, time_s: float) -> float:
        """The OFU of a GPU that does this product once in `time_s`, both above 0; above 1 when so.

        Source: Pedersen et al., arXiv:2605.20799 (OFU_adj = OFU x 2MNK / executed FLOPs).
        """
        return self.executed_flops / (peak_flops * time_s)
