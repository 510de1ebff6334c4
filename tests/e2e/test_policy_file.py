"""The policy as a file, with the commands a person types, on a real gateway: applied whole, or not at all."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from bailiwick.testing.asking import failure, rows
from bailiwick.testing.gateway import RunningGateway, command

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PASSWORD = "fay reads files"
PEOPLE = "SELECT id, email, phone, born FROM lake.files.people ORDER BY id"
ADDED = """
[[role]]
name = "file_reader"
members = ["user:fay"]
[[grant]]
to = ["role:file_reader"]
on = "lake.files.*"
privileges = ["select"]
[[row_filter]]
name = "eu_only"
on = "lake.files.people"
for = ["role:file_reader"]
using = "region = 'EU'"
[[mask]]
name = "last_4"
on = "lake.files.people"
column = "phone"
for = ["role:file_reader"]
action = "show_last_4"
[[mask]]
name = "year"
on = "lake.files.people"
column = "born"
for = ["role:file_reader"]
action = "truncate_to_year"
[[tag]]
on = "lake.files.people"
column = "email"
tags = ["contact"]
[[mask]]
name = "contact_hash"
tag = "contact"
for = ["role:file_reader"]
using = "left(sha2(value, 256), 8)"
"""
SAID = [
    "created role file_reader",
    "granted role file_reader to user:fay",
    "granted select on all tables lake.files.* to role:file_reader",
    "created row filter eu_only on table lake.files.people",
    "created mask contact_hash on tag contact",
    "created mask last_4 on table lake.files.people",
    "created mask year on table lake.files.people",
    "set tags contact on table lake.files.people column email",
]


def policy(gateway: RunningGateway, *arguments: str, file: str = "") -> tuple[int, str, str]:
    """Exit code, what it printed, what it complained of."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BAILIWICK")}
    here = {"BAILIWICK_URL": gateway.uri, "BAILIWICK_PASSWORD": gateway.admin_password}
    done = subprocess.run(
        [command(), "policy", *arguments],
        input=file,
        env={**inherited, **here},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def before(gateway: RunningGateway) -> Iterator[str]:
    """What held before, which others lean on, and a table that Fay may not see yet."""
    rows(gateway, f"CREATE USER fay PASSWORD '{PASSWORD}' ROLES (reader)")
    rows(gateway, "CREATE NAMESPACE IF NOT EXISTS lake.files")
    columns = "id INT, region STRING, email STRING, phone STRING, born DATE"
    rows(gateway, f"CREATE TABLE lake.files.people ({columns}) USING iceberg")
    ann = "(1, 'EU', 'ann@example.org', '+49-170-1234567', DATE '1990-05-17')"
    ben = "(2, 'US', 'ben@example.org', '+1-555-7654321', DATE '1985-01-02')"
    rows(gateway, f"INSERT INTO lake.files.people VALUES {ann}, {ben}")
    code, text, _ = policy(gateway, "show")
    assert code == 0
    yield text
    assert policy(gateway, "apply", "-", file=text)[0] == 0


def of_fay(gateway: RunningGateway) -> list[tuple[str, ...]]:
    return [tuple(map(str, row)) for row in rows(gateway, PEOPLE, "fay", PASSWORD)]


def test_a_file_is_shown_compared_tried_applied_and_taken_back(gateway: RunningGateway, before: str) -> None:
    assert policy(gateway, "diff", "-", file=before) == (0, "", "")
    wanted = before + ADDED

    code, printed, complaint = policy(gateway, "apply", "-", "--dry-run", file=wanted)
    assert (code, complaint) == (0, "")
    assert printed.splitlines()[: len(SAID)] == SAID
    assert policy(gateway, "diff", "-", file=wanted)[:2] == (1, "\n".join(SAID) + "\n")
    assert "TABLE_NOT_FOUND" in failure(gateway, PEOPLE, "fay", PASSWORD)

    assert policy(gateway, "apply", "-", file=wanted)[:2] == (0, "\n".join(SAID) + "\n")
    hashed = rows(gateway, "SELECT left(sha2('ann@example.org', 256), 8)")[0][0]
    assert of_fay(gateway) == [("1", str(hashed), "xnn-nnn-nnn4567", "1990-01-01")]
    assert len(rows(gateway, PEOPLE)) == 2
    assert policy(gateway, "diff", "-", file=wanted) == (0, "", "")
    assert policy(gateway, "apply", "-", file=wanted)[:2] == (0, "nothing to change\n")

    assert policy(gateway, "apply", "-", file=before)[0] == 0
    assert "TABLE_NOT_FOUND" in failure(gateway, PEOPLE, "fay", PASSWORD)


@pytest.mark.parametrize(
    ("added", "says"),
    [
        (ADDED.replace('using = "region', 'usin = "region'), "there is no key 'usin' here"),
        (ADDED.replace("region = 'EU'", "continent = 'EU'"), "continent"),
        (ADDED.replace("region = 'EU'", "id"), "eu_only"),
        (ADDED.replace("truncate_to_year", "show_last_4"), "does not fit a column of type date"),
        (ADDED.replace('tags = ["contact"]', 'tags = ["contact"]\n[[tag]]\non = "x"'), "on"),
        (
            ADDED + '[[mask]]\nname="m"\ntag="contact"\nfor="user:fay"\naction="null"\n',
            "different priorities",
        ),
    ],
)
def test_a_file_with_one_mistake_changes_nothing(
    gateway: RunningGateway, before: str, added: str, says: str
) -> None:
    code, printed, complaint = policy(gateway, "apply", "-", file=before + added)
    assert (code, printed) == (1, "")
    assert says in complaint
    assert policy(gateway, "diff", "-", file=before) == (0, "", "")


def test_only_admins_apply_files(gateway: RunningGateway, before: str) -> None:
    assert "ACCESS_DENIED" in failure(gateway, "APPLY POLICY ''", "fay", PASSWORD)
    assert "ACCESS_DENIED" in failure(gateway, "SHOW POLICY FILE", "fay", PASSWORD)
    assert policy(gateway, "diff", "-", file=before) == (0, "", "")
