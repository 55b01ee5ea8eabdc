"""Which containers a sweep may take: certainly dead owners only."""

from __future__ import annotations

import os
import subprocess

from whimbrel.sandbox.labels import BOOT, PID, owner_is_dead, owner_labels


def test_this_process_is_alive() -> None:
    assert not owner_is_dead(owner_labels("run", "sandbox"), running=True)


def test_a_process_that_has_ended_is_dead() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    labels = {**owner_labels("run", "sandbox"), PID: str(ended.pid)}
    assert owner_is_dead(labels, running=True)


def test_a_reused_process_id_is_not_mistaken_for_the_owner() -> None:
    boot, namespace, start = owner_labels("run", "sandbox")[BOOT].split("/")
    labels = {PID: str(os.getpid()), BOOT: f"{boot}/{namespace}/{int(start) - 1}"}
    assert owner_is_dead(labels, running=True)


def test_an_owner_in_another_pid_namespace_cannot_be_judged_and_is_left_alone() -> None:
    boot, _, start = owner_labels("run", "sandbox")[BOOT].split("/")
    assert not owner_is_dead({PID: "999999", BOOT: f"{boot}/1/{start}"}, running=True)


def test_after_a_reboot_what_does_not_run_any_more_is_dead() -> None:
    labels = {PID: str(os.getpid()), BOOT: "another-boot/1/1"}
    assert owner_is_dead(labels, running=False)
    assert not owner_is_dead(labels, running=True)


def test_labels_that_name_no_owner_are_left_alone() -> None:
    for labels in ({}, {PID: "", BOOT: ""}, {PID: "x", BOOT: "a/b/c"}, {PID: "1", BOOT: "odd"}):
        assert not owner_is_dead(labels, running=False)
