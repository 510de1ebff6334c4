"""Engines that nobody could reach or understand do not join, and are told why."""

import pytest
from fleet_reports import OURS, report

from bailiwick.fleet.acceptance import address_of, reason_to_refuse, unroutable


@pytest.mark.parametrize(
    "address",
    [
        *("10.0.0.1:7000", "[2001:db8::1]:7000", "[fe80::1%eth0]:7000", "engine-1:7000"),
        *("engine_1.lan:1", "a.b.example.:65535", "127.0.0.1:7000", "[::1]:7000", "localhost:80", "e1:80"),
    ],
)
def test_what_one_might_reach_is_accepted(address: str) -> None:
    assert unroutable(address) is None


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0:7000", "[::]:7000", "[::ffff:0.0.0.0]:7000", "0.1.2.3:7000"),
        *(
            "224.0.0.1:7000",
            "[ff02::1]:7000",
            "[ff02::1%eth0]:7000",
            "255.255.255.255:7000",
            "240.0.0.1:7000",
        ),
        *("169.254.169.254:80", "[fe80::1]:7000", "[::ffff:169.254.1.1]:7000"),
        *("10.0.0.1:0", "10.0.0.1", "10.0.0.1:", "10.0.0.1:65536", "10.0.0.1:-1", "10.0.0.1:٣", ":7000"),
        *("0:7000", "0x0:7000", "127.1:7000", "0.0:7000", "1.2.3.4.5:7000", "010.0.0.1:7000"),
        *("::1:7000", "[10.0.0.1]:7000", "[fe80::1%]:7000", "[fe80::1%a/b]:7000", "a..b:7000", "-a:7000"),
        *(
            "a/b:7000",
            "user@host:7000",
            "http://a:7000",
            f"{'a' * 64}:7000",
            f"{'a.' * 127}aa:7000",
            "[]:7000",
        ),
    ],
)
def test_what_nobody_can_reach_is_refused_with_advice(address: str) -> None:
    flaw = unroutable(address)
    assert flaw is not None
    assert "give the keeper" in flaw
    assert address not in flaw


@pytest.mark.parametrize(
    "address", ["127.0.0.1:7000", "127.8.9.1:7000", "[::1]:7000", "[::ffff:127.0.0.1]:7000", "LocalHost:7000"]
)
def test_loopback_is_good_only_for_a_keeper_on_this_machine(address: str) -> None:
    assert unroutable(address, peer_is_loopback=True) is None
    assert "another machine" in (unroutable(address, peer_is_loopback=False) or "")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ENGINE-1:7000", "engine-1.:7000"),
        ("[2001:DB8:0::1]:7000", "[2001:db8::1]:7000"),
        ("10.0.0.1:07000", "10.0.0.1:7000"),
    ],
)
def test_two_ways_to_write_an_address_are_one_address(one: str, other: str) -> None:
    assert address_of(one) == address_of(other)


def test_patch_releases_go_together() -> None:
    for version, spark in [("0.1.9", "4.1.0"), ("0.1.0.dev3", "4.1.4-amzn-1"), ("0.1", "4.1")]:
        assert reason_to_refuse(report(version=version, spark_version=spark), OURS) is None


@pytest.mark.parametrize("version", ["0.2.0", "1.1.0", "", "0", "0.10.0", "unknown", "x0.1.0"])
def test_other_versions_of_ours_are_refused_with_a_reason(version: str) -> None:
    flaw = reason_to_refuse(report(version=version), OURS)
    assert flaw is not None
    assert f"Bailiwick {version}" in flaw
    assert "0.1.x" in flaw


@pytest.mark.parametrize("version", ["4.0.1", "3.5.6", "5.1.4", "4.10.0"])
def test_other_versions_of_spark_are_refused_with_a_reason(version: str) -> None:
    flaw = reason_to_refuse(report(spark_version=version), OURS)
    assert flaw is not None
    assert f"Spark {version}" in flaw
    assert "4.1.x" in flaw


def test_a_gateway_that_does_not_know_its_own_version_takes_nobody() -> None:
    odd = type(OURS)("?", "?")
    assert reason_to_refuse(report(version="?", spark_version="?"), odd) is not None
