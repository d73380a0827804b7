"""Fake of the vendor's module: old names answer with a warning, as since 4.6.0."""

import warnings

DCGM_FE_NONE, DCGM_FE_GPU, DCGM_FE_GPU_I, DCGM_FE_GPU_CI = 0, 1, 4, 5
warnings.warn("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE is deprecated", DeprecationWarning, stacklevel=1)
