"""A Hugging Face config.json as numbers: read, each key checked, each mistake named.

Enters: a path; or the mapping of a config.json, and families.yaml, which has what a model type does
that its config does not have. Leaves: whole
numbers, flags and lists, or a `ModelConfigError` that names the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from reprlib import repr as short
from typing import Any, Literal

import msgspec

from otel_ofu.files.yaml import convert, parse_yaml
from otel_ofu.model.errors import OtelOfuError
from otel_ofu.model.validation import in_plain_words


class ModelConfigError(OtelOfuError):
    """A model's config lacks something or is of an unknown kind; names what is allowed."""


class ModelKeyError(ModelConfigError):
    """A mistake inside a config; `in_file` puts the name of the file before it."""

    def __init__(self, mistake: str, file: str = "config.json") -> None:
        super().__init__(f"{file}: {mistake}")
        self._mistake = mistake

    def in_file(self, file: str) -> ModelKeyError:
        return ModelKeyError(self._mistake, file)


MAX_COUNT = 1 << 32  # starting value: above any width, vocabulary or count


class Keys:
    """Look-up in a config under the names of today; `aliases` maps those to older ones."""

    def __init__(
        self,
        config: Mapping[str, Any],
        aliases: Mapping[str, str],
        defaults: Mapping[str, Any],
    ) -> None:
        self._config = config
        self._aliases = aliases
        self._defaults = defaults

    def value(self, name: str) -> Any:  # noqa: ANN401 - JSON
        """The value in the config; a key that is absent or null has the default of its type."""
        found = self._config.get(self._aliases.get(name, name))
        if found is None:
            found = self._config.get(name)
        return self._defaults.get(name) if found is None else found

    def has(self, name: str) -> bool:
        return self.value(name) is not None

    def count(self, name: str, otherwise: int | None = None, *, least: int = 1) -> int:
        """A whole number, or `otherwise` when it is not given."""
        found = self.value(name)
        if found is None and otherwise is not None:
            return otherwise
        number = int(found) if isinstance(found, float) and found.is_integer() else found
        if (
            isinstance(number, bool)
            or not isinstance(number, int)
            or not least <= number < MAX_COUNT
        ):
            why = "is missing" if found is None else f"is {short(found)}"
            raise ModelKeyError(
                f"{self._aliases.get(name, name)!r} {why}; "
                f"allowed: a whole number from {least} to {MAX_COUNT - 1}"
            )
        return number

    def optional(self, name: str) -> int | None:
        return self.count(name) if self.has(name) else None

    def flag(self, name: str) -> bool:
        found = self.value(name)
        if found is not None and not isinstance(found, bool):
            raise ModelKeyError(f"{name!r} is {short(found)}; allowed: true or false")
        return bool(found)

    def items(self, name: str) -> list[Any]:
        found = self.value(name)
        if found is None:
            return []
        if not isinstance(found, list):
            raise ModelKeyError(f"{name!r} is {short(found)}; allowed: a list")
        return found


MAX_BYTES = 4 * 1024 * 1024  # starting value: the largest published ones have 200 KiB


def config_path(path: str | Path) -> Path:
    """The file itself; of a model's folder the config.json in it."""
    file = Path(path)
    return file / "config.json" if file.is_dir() else file


def read_config(path: str | Path) -> dict[str, Any]:
    """The mapping of a config.json, or of the one in a model's folder. Raises ModelConfigError."""
    file = config_path(path)
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ModelConfigError(f"{file}: cannot be read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise ModelConfigError(f"{file}: larger than {MAX_BYTES // 1024**2} MiB, the most allowed")
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ModelConfigError(f"{file}: not a JSON object: {in_plain_words(error)}") from error
    except RecursionError as error:
        raise ModelConfigError(f"{file}: nested too deeply") from error


Build = Literal["uniform", "nemotron_h", "jamba", "granite", "bamba", "mamba", "mamba2"]


class Family(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model type; the header of families.yaml explains the fields."""

    build: Build = "uniform"
    latent: bool = False
    experts: bool = False
    gated: bool = True
    norm: Literal["rms", "layer", "none"] = "rms"
    norms: int = 2
    qk_norm: Literal["none", "head", "all"] = "none"
    bias: Literal["none", "qkv", "all", "attention_bias"] = "none"
    mlp_bias: Literal["none", "all", "mlp_bias"] = "none"
    head_bias: bool = False
    expert_bias: bool = False
    score_bias: bool = False
    shared_gate: bool = False
    sinks: bool = False
    window: Literal["none", "all", "even", "every", "switch"] = "none"
    defaults: dict[str, Any] = {}
    aliases: dict[str, str] = {}


class _FamiliesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    families: dict[str, Family]


@cache
def load_families() -> Mapping[str, Family]:
    """The model types of this package by their name; parsed once."""
    text = files("otel_ofu.mfu.flops").joinpath("families.yaml").read_bytes()
    return convert(parse_yaml(text, "families.yaml"), _FamiliesFile).families


def text_model(config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], tuple[str, ...]]:
    """The model type, the config of the language model, and remarks.

    Models with other inputs besides text hold the language model in `text_config`: only that is
    counted. Raises ModelConfigError with the known types for an unknown one.
    """
    known = load_families()
    inner = config.get("text_config")
    outer = str(config.get("model_type", ""))
    if isinstance(inner, Mapping) and outer not in known:
        name = str(inner.get("model_type", ""))
        merged = {"tie_word_embeddings": config.get("tie_word_embeddings"), **inner}
        if name in known:
            return name, merged, (f"only the language model of {outer!r} is counted",)
        outer = name or outer
    if outer not in known:
        why = f"model_type {outer!r} is not known" if outer else "'model_type' is missing"
        raise ModelKeyError(f"{why}; known: {', '.join(sorted(known))}")
    return outer, config, ()
