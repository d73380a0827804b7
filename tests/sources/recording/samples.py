"""Readings for the tests of recordings: two small ones, and a strategy for any."""

from hypothesis import strategies as st

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Device, Gap, GapReason, Owner, Reading, Window

GPU = Device(uuid="GPU-1", index=0, model="NVIDIA H100 80GB HBM3", host="n1")
SLICE = Device(uuid="MIG-2", parent="GPU-1", sm_share=0.125, mig_profile="1g.10gb")


def tick(end_s: float) -> list[Reading]:
    """Two devices over the ten seconds before `end_s`."""
    window = Window(end_s - 10, end_s)
    values = {"tensor_active": 0.41, "throttled:sw_power_cap": 1.0, "energy": 1.5e9 + end_s}
    gaps = {"dram_active": Gap(GapReason.NOT_SUPPORTED), "power": Gap(GapReason.FAILED, "GPU lost")}
    owners = (Owner({"ofu.job.id": "4242"}, 0.25), Owner({"ofu.job.id": "4243"}))
    return [
        Reading(
            GPU, window, "nvml", values, gaps, owners, windows={"energy": Window(end_s - 12, end_s)}
        ),
        Reading(SLICE, window, "nvml", {}, {}, (), "busy_proxy"),
    ]


def _keys() -> list[str]:
    registry = load_registry()
    labelled = ["xid:79", "throttled:sw_power_cap", "throttle_time:power"]
    return [key for key, m in registry.metrics.items() if not m.labels] + labelled


_some_keys = st.lists(st.sampled_from(_keys()), unique=True, max_size=6)
_text = st.text(max_size=8)
_number = st.floats(allow_nan=False)  # not equal to itself: has a test of its own
_gap = st.builds(Gap, st.sampled_from(GapReason), _text)
_owners = st.builds(
    Owner,
    st.dictionaries(_text, _text, max_size=3),
    st.none() | st.floats(0, 1, exclude_min=True),
)
_devices = st.builds(
    Device,
    uuid=_text,
    index=st.none() | st.integers(0, 1023),
    model=_text,
    vendor=_text,
    parent=_text,
    sm_share=st.floats(0, 1, exclude_min=True),
    mig_instance_id=st.none() | st.integers(0, 13),
    host=_text,
)


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    """Any reading: each key of the registry has a value, a gap or nothing."""
    keys = draw(_some_keys)
    cut = draw(st.integers(0, len(keys)))
    return Reading(
        draw(_devices),
        Window(draw(_number), draw(_number)),
        draw(_text),
        {key: draw(_number) for key in keys[:cut]},
        {key: draw(_gap) for key in keys[cut:]},
        tuple(draw(st.lists(_owners, max_size=2))),
        draw(_text),
        {key: Window(draw(_number), draw(_number)) for key in keys[:cut] if draw(st.booleans())},
    )
