"""The planner: the published figures by the config alone, caches, layouts, and odd requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from whimbrel.app.cli import cli
from whimbrel.engine.cluster.machines import parse_cluster, parse_disk, parse_size, parse_tokens
from whimbrel.engine.cluster.plan import Request, cache_sizes, on_cpu, on_gpus, smallest_that_fits, weigh
from whimbrel.engine.kimi.config import KimiConfig, load_config
from whimbrel.engine.kimi.inventory import text_tensors, vision_tensors
from whimbrel.sandbox.base.errors import UsageError

CONFIGS = Path(__file__).parents[2] / "fixtures/kimi"
MILLION = 1_048_576
GIB = 2**30


def config(name: str) -> KimiConfig:
    return load_config(CONFIGS / f"{name}.json")


K3, K31, LINEAR = config("k3"), config("k31"), config("kimi-linear")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["engine", "plan", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_published_figures_follow_from_the_config_alone():
    weights = weigh(K3, Request(MILLION))
    assert round((weights.text + weights.vision) / 1e9, 2) == 2779.93
    assert round(weights.text / 1e9, 2) == 2779.48
    assert round(weights.active / 1e9, 2) == 104.19
    assert round(weights.stored_text / 1e12, 3) == 1.560
    assert round((weights.stored_text + weights.stored_vision) / 1e12, 3) == 1.561
    assert weights.bytes_by_part["routed experts"] == 82_432 * 17_547_264
    assert round(weights.expert_read / 1e9, 1) == 25.8
    assert round(weights.dense_read / 1e9) == 111


def test_the_command_prints_them():
    shown = run("--config", str(CONFIGS / "k3.json"))
    for figure in (
        "2,779.93 B",
        "2,779.48 B without",
        "104.19 B per token",
        "1.560 TB",
        "1.561 TB with vision",
    ):
        assert figure in shown


def test_the_names_of_the_release_are_counted_as_its_listing_counts_them():
    tensors = [*text_tensors(K3), *vision_tensors(K3)]
    names = sum(tensor.copies for tensor in tensors)
    weights = sum(tensor.copies for tensor in tensors if tensor.name.endswith(".weight"))
    routed = sum(tensor.copies for tensor in tensors if tensor.part == "routed experts")
    assert (routed, weights, names, names + routed) == (247_296, 249_694, 249_924, 497_220)


def test_an_indexer_adds_its_parameters():
    indexer = weigh(K31, Request(MILLION)).parameters_by_part["indexer"]
    assert round(indexer / 1e6, 1) == 178.5


@pytest.mark.parametrize(
    ("kind", "latent", "per_layer", "at_a_million", "index_keys"),
    [("bf16", 27_648, 1152, 27.0, 6144), ("fp8", 13_824, 576, 13.5, 3168), ("fp8-sparse", 15_744, 656, 15.4, 3168)],
)  # fmt: skip
def test_caches_grow_as_the_specification_says(kind, latent, per_layer, at_a_million, index_keys):
    sizes = cache_sizes(K31, kind)
    assert (sizes.latent, sizes.latent // 24, sizes.indexer) == (latent, per_layer, index_keys)
    assert round(sizes.latent * MILLION / GIB, 1) == at_a_million
    assert cache_sizes(K3, kind).indexer == 0
    assert (sizes.state, sizes.convolution) == (69 * 6_291_456, 69 * 221_184)


def test_a_whole_sequence_at_a_million_tokens():
    assert round(cache_sizes(K31, "bf16").per_token * MILLION / GIB, 1) == 33.0
    assert round(cache_sizes(K31, "fp8-sparse").per_token * MILLION / GIB, 1) == 18.5


def test_the_model_for_one_desktop_has_its_figures_too():
    weights = weigh(LINEAR, Request(MILLION, dense="int8"))
    experts = weights.bytes_by_part["routed experts"]
    assert round(weights.parameters_by_part["routed experts"] / 1e9, 1) == 47.1
    assert round(experts / 1e9, 1) == 25.0
    assert round((weights.text - weights.parameters_by_part["routed experts"]) / 1e9, 1) == 2.0
    assert round(weights.expert_read / 1e9, 2) == 0.78
    sizes = cache_sizes(LINEAR, "bf16")
    assert sizes.latent == 7 * 1152 and round(sizes.latent * MILLION / 1e9, 1) == 8.5
    assert round(sizes.state / 20 / 1e6, 1) == 2.1
    layout = on_cpu(LINEAR, Request(MILLION, dense="int8"), ram=64 * GIB, disk=None, bandwidth=36e9)
    assert layout.fits and layout.seconds_per_token is not None and layout.streamed == 0
    assert round(1 / layout.seconds_per_token) == 15
    wide = on_cpu(LINEAR, Request(8192), ram=64 * GIB, disk=None, bandwidth=36e9)
    assert wide.seconds_per_token is not None and round(1 / wide.seconds_per_token) == 9


@pytest.mark.parametrize(
    ("machines", "fits", "tensor", "pipeline"),
    [("8xH200", False, 8, 1), ("16xH200", True, 8, 2), ("8xB300", True, 8, 1), ("16xGB200", True, 16, 1)],
)
def test_layouts_keep_tensor_parallelism_inside_a_node(machines, fits, tensor, pipeline):
    cluster = parse_cluster(machines)
    assert cluster is not None
    layout = on_gpus(K3, cluster, Request(MILLION))
    assert (layout.fits, layout.tensor, layout.pipeline) == (fits, tensor, pipeline)
    assert sum(layout.stages) == 93 and (layout.largest_context == MILLION) == fits
    assert 0 < layout.weights * cluster.count < 1.2 * weigh(K3, Request(MILLION)).total_bytes


def test_what_does_not_fit_is_told_what_would():
    cluster = parse_cluster("8xH200")
    assert cluster is not None
    grown = smallest_that_fits(K3, cluster, Request(131_072))
    assert grown is not None and grown.count == 16
    shown = run("--config", str(CONFIGS / "k3.json"), "--gpus", "8xH200")
    assert "does not fit" in shown and "16xH200" in shown


def test_experts_may_stay_outside_the_gpus():
    cluster = parse_cluster("8xH200")
    assert cluster is not None
    layout = on_gpus(K3, cluster, Request(131_072), spare=2 * 10**12)
    assert layout.fits and 400e9 < layout.streamed < 1446e9
    assert layout.weights + layout.cache <= layout.usable and layout.seconds_per_token is None


def test_the_largest_context_is_the_last_that_fits():
    cluster = parse_cluster("8xB300")
    assert cluster is not None
    layout = on_gpus(K3, cluster, Request(8192, sequences=4))
    largest = layout.largest_context
    assert 0 < largest < MILLION and largest % 64 == 0 and layout.pipeline == 1
    assert on_gpus(K3, cluster, Request(largest, sequences=4)).pipeline == 1
    # One page more, and only a layout with two stages holds it, which the remark has said before.
    assert on_gpus(K3, cluster, Request(largest + 64, sequences=4)).pipeline == 2
    assert "tensor parallel 4 x pipeline 2 would hold 1,048,576 tokens" in layout.remark


def test_a_desktop_streams_the_experts_from_its_disk():
    request = Request(8192, dense="int8")
    layout = on_cpu(K3, request, ram=64 * GIB, disk=7e9, bandwidth=60e9)
    assert layout.fits and layout.streamed > 1.4e12
    assert layout.seconds_per_token is not None and layout.seconds_per_token > 3.5
    assert not on_cpu(K3, request, ram=64 * GIB, disk=None, bandwidth=60e9).fits
    assert not on_cpu(K3, Request(8192), ram=64 * GIB, disk=7e9, bandwidth=60e9).fits
    shown = run("--config", str(CONFIGS / "k3.json"), "--ram", "64GB", "--disk", "nvme")
    assert "does not fit" in shown and "--dense int8" in shown


def test_the_same_as_data():
    data = json.loads(
        run("--config", str(CONFIGS / "k31.json"), "--gpus", "16xH200", "--context", "1M", "--json")
    )
    assert data["layout"]["fits"] is True and data["layout"]["stages"] == [47, 46]
    assert data["caches"]["bf16"]["at"]["1048576"] == cache_sizes(K31, "bf16").at(MILLION)
    assert data["parameters"]["total"] == 2_779_931_837_184 + 24 * (
        4096 * 1536 + 128 * 7168 + 32 * 7168 + 128
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gpus", "8xGTX9"], "not known"),
        (["--gpus", "many"], "no number of GPUs|not known"),
        (["--gpus", "0xH200"], "no number of GPUs"),
        (["--ram", "lots"], "no size"),
        (["--disk", "floppy"], "nvme"),
        (["--context", "2M"], "more than the model's"),
        (["--context", "-1"], "no number of tokens"),
        (["--config", "absent.json"], "cannot be read"),
    ],
)
def test_odd_requests_are_refused_in_one_line(arguments, said):
    import re

    from whimbrel.sandbox.base.errors import WhimbrelError

    given = ["engine", "plan", "--config", str(CONFIGS / "k3.json"), *arguments]
    result = CliRunner().invoke(cli, given)
    assert isinstance(result.exception, WhimbrelError)
    assert re.search(said, result.exception.one_line()) and "\n" not in result.exception.one_line()


def test_a_model_with_a_short_window_is_planned_for_all_of_it(tmp_path):
    raw = json.loads((CONFIGS / "k3.json").read_text())
    raw["text_config"]["max_position_embeddings"] = 4096
    (tmp_path / "config.json").write_text(json.dumps(raw))
    assert "fits at 4,096 tokens" in run("--config", str(tmp_path), "--gpus", "8xB300")


def test_sizes_are_read_as_people_write_them():
    assert (parse_size("64GB"), parse_size("64GiB"), parse_size("1.5T")) == (
        64 * 10**9,
        64 * GIB,
        1500 * 10**9,
    )
    assert parse_size("64GB", binary=True) == 64 * GIB
    assert (parse_tokens("1M"), parse_tokens("128k"), parse_tokens("200_000")) == (MILLION, 131_072, 200_000)
    assert (parse_disk("nvme"), parse_disk("3GB/s")) == (7e9, 3e9)
    own = parse_cluster("4xMYCARD@96GB")
    assert own is not None and own.device.memory == 96 * 10**9
    assert parse_cluster("cpu") is None
    with pytest.raises(UsageError):
        parse_disk("7GB")
