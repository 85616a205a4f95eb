"""usage: check-report.py MODE FILE    checks the form and the sanity of a report of gemma-bench"""
import json
import math
import sys


def positive(*values):
    for value in values:
        assert isinstance(value, (int, float)) and math.isfinite(value) and value > 0, value


def check_series(series, rounds):
    assert len(series["rounds"]) == rounds, series
    positive(series["median"], series["best"], *series["rounds"])
    assert min(series["rounds"]) <= series["median"] <= series["best"] == max(series["rounds"])


def check_limits(limits, rounds, threads):
    assert [entry["threads"] for entry in limits["threads"]] == threads, limits
    assert limits["buffer_bytes"] == 16 << 20
    for entry in limits["threads"]:
        for key in ("read_bytes_per_second", "copy_bytes_per_second", "f32_flops_per_second"):
            check_series(entry[key], rounds)


def main():
    mode, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    assert report["mode"] == mode and report["cpu"], report
    rounds = report["rounds"]
    if mode == "limits":
        check_limits(report["limits"], rounds, [1, 2])
    elif mode == "compile":
        (facts,) = report["compilations"]
        positive(facts["seconds"], facts["cpu_seconds"], facts["kernels"])
        # The compiler's libraries alone take more than a few MiB.
        assert facts["peak_bytes"] > 20 << 20 and facts["code_bytes"] > 1000, facts
        assert facts["layers"] == 12 and facts["decode_launches_per_layer"] == 5, facts
        assert all(line["ok"] for line in report["budget"]) and len(report["budget"]) == 4, report
    elif mode == "model":
        check_limits(report["limits"], rounds, [2])
        assert report["cached"] == 60 and report["model"]["layers"] == 12, report
        assert report["model"]["packed_weights"] == "", report
        for part, tokens in (("prefill", 40), ("decode", 3)):
            speed = report[part]
            assert speed["tokens"] == tokens
            check_series(speed["tokens_per_second"], rounds)
            positive(speed["bytes_per_token"], speed["flops_per_token"])
            limits = report["limits"]["threads"][0]
            for share, unit, limit in (("of_read", "bytes_per_token", "read_bytes_per_second"),
                                       ("of_f32", "flops_per_token", "f32_flops_per_second")):
                best = speed["tokens_per_second"]["best"] * speed[unit] / limits[limit]["best"]
                assert math.isclose(speed[share]["best"], best, rel_tol=1e-9), speed
                positive(speed[share]["median"])
        (prompt,) = report["long_prompts"]
        check_series(prompt["tokens_per_second"], rounds)
        of = prompt["tokens_per_second"]["best"] / report["prefill"]["tokens_per_second"]["best"]
        assert prompt["tokens"] == 80 and math.isclose(prompt["of_prefill"]["best"], of), prompt
        decode, limits = report["decode"], report["limits"]["threads"][0]
        assert [context["cached"] for context in report["long_contexts"]] == [90, 93], report
        for context in report["long_contexts"]:
            check_series(context["tokens_per_second"], rounds)
            more = [1 / speed["tokens_per_second"]["best"] for speed in (context, decode)]
            least = max((context[unit] - decode[unit]) / limits[limit]["best"]
                        for unit, limit in (("bytes_per_token", "read_bytes_per_second"),
                                            ("flops_per_token", "f32_flops_per_second")))
            assert math.isclose(context["cost_of_more"]["best"], (more[0] - more[1]) / least,
                                rel_tol=1e-6), context
        beside = report["beside"]
        assert beside["processes"] == 1 and 0 < beside["fair_share"] <= 1, beside
        check_series(beside["tokens_per_second"], rounds)
        positive(beside["of_fair_share"]["best"], beside["of_fair_share"]["median"])
        # A decoded token reads all weights, a prompt's token shares them with its chunk.
        assert report["decode"]["bytes_per_token"] > report["model"]["weight_bytes"]
        assert report["prefill"]["bytes_per_token"] < report["model"]["weight_bytes"]
    elif mode == "kernels":
        assert report["not_measured"] == [], report
        for variant in report["variants"]:
            launches = 0
            for kernel in variant["kernels"]:
                positive(kernel["seconds"], kernel["bytes"])
                launches += kernel["seconds"] * kernel["launches"]
                if "mlp.down" in kernel["nodes"]:
                    positive(kernel["flops"])
            # The launches are the step, but for medians of different rounds.
            assert 0.2 < launches / variant["step_seconds"] < 5, variant
    else:
        raise SystemExit("unknown mode " + mode)


main()
