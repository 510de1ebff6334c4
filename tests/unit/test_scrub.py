"""What must not leave the house does not, and what a user wrote stays as it was."""

import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.telemetry.scrub import TEXT_LENGTH_MAX, scrub, scrub_secrets

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("cannot reach 10.1.2.3:7077 now", "cannot reach <host> now"),
        ("cannot reach /10.1.2.3:7077 now", "cannot reach <host> now"),
        ("lost worker-1/10.1.2.3:7077", "lost <host>"),
        ("at [fe80::1ff:fe23:4567:890a]:8080", "at <host>"),
        ("listens on ::1 only", "listens on <host> only"),
        ("spark-master.prod.internal:7077 refused", "<host> refused"),
        ("Connection refused: localhost:15002", "Connection refused: <host>"),
        ("Failed to connect to engine-7:15002", "Failed to connect to <host>"),
        ("java.net.UnknownHostException: lake-db", "java.net.UnknownHostException: <host>"),
        ("(TID 7) (ip-10-0-0-4.ec2.internal executor 3): x", "(TID 7) (<host> executor 3): x"),
        ("GET http://catalog.local:8181/v1/config?x=1 failed", "GET <url> failed"),
        ("read s3://bucket/warehouse/t/data/0001.parquet: denied", "read <location> denied"),
        ("read s3a://bucket/t, then stop", "read <location>, then stop"),
        ("abfss://c@acc.dfs.core.windows.net/t", "<location>"),
        ("gs://b/k and hdfs://nn:8020/x", "<location> and <location>"),
        ("file:/srv/lake/metadata/v1.json", "<location>"),
        ("jdbc:postgresql://db:5432/meta?user=a", "<location>"),
        ("No such file /srv/lake/t/part-0.parquet (x)", "No such file <path> (x)"),
        ("open '/var/lib/bailiwick/keys/seal' failed", "open '<path>' failed"),
        ("in /tmp", "in <path>"),
        (r"C:\Users\me\lake.db is locked", "<path> is locked"),
        ("Authorization: Bearer abc123.def456", "Authorization: <secret>"),
        (f"got {JWT} from x", "got <secret> from x"),
        ("password=hunter2 and more", "password=<secret> and more"),
        ("db_password = 'it''s me', x", "db_password = <secret>, x"),
        ('{"token": "abc", "n": 1}', '{"token": <secret>, "n": 1}'),
        ("spark.hadoop.fs.s3a.secret.key=AbC/dEf+1", "spark.hadoop.fs.s3a.secret.key=<secret>"),
        ("ALTER USER ann PASSWORD 'geheim'", "ALTER USER ann PASSWORD '<secret>'"),
        ("ALTER USER ann PASSWORD 'never closed", "ALTER USER ann PASSWORD '<secret>'"),
        ("password='never closed", "password=<secret>"),
        ("key AKIAIOSFODNN7EXAMPLE used", "key <secret> used"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----", "<key>"),
        ("boom\n\tat a.b.C.d(C.java:12)\n\tat java.base/e.F.g(Unknown Source)\n\t... 12 more", "boom"),
        ("boom\nCaused by: java.io.IOException: deep\n\tat a.B.c(B.scala:3)", "boom"),
        (
            'Traceback (most recent call last):\n  File "/srv/x.py", line 3, in f\n    g()\nValueError: bad',
            "ValueError: bad",
        ),
        ("org.example.Plan@1a2b3c4d is closed", "org.example.Plan@<id> is closed"),
        ("session 0f8fad5b-d9cb-469f-a165-70867728950e gone", "session <id> gone"),
        ("lease L0123456789abcdefghjkmnpqrs over", "lease <id> over"),
    ],
)
def test_what_must_not_leave_is_replaced(text: str, scrubbed: str) -> None:
    assert scrub(text) == scrubbed


@pytest.mark.parametrize(
    "text",
    [
        "a/b",
        "SELECT a/b, c / d FROM sales.orders WHERE x = '1/2'",
        "the column `user.token_count` in lake.sales.orders cannot be resolved",
        "cannot cast 12:34:56 to TIMESTAMP",
        "2020-01-02 03:04:05.678",
        "a::int is not supported",
        "abc::def",
        "extraneous input 'x' expecting {<EOF>, ';'}",
        "unexpected token: FROM",
        "the secret of success",
        "password must not be empty",
        "a basic understanding",
        "bearer of the ring",
        "org.apache.spark.SparkException: odd",
        "java.io.IOException: odd",
        "sum(price) / count(*) > 0.5",
        "user@example says hello",
        "array(1, 2, 3)[4]",
        "version 4.1.4",
        "ratio 3:4",
        "q06bq2hk3m0000000000000000 failed",
        "größer als 1/3 — wirklich",
        "SELECT 'x' || y FROM t -- a comment",
        "decimal(38,10)",
        "map('a' -> 1)",
    ],
)
def test_ordinary_text_stays_as_it_was(text: str) -> None:
    assert scrub(text) == text


def test_logs_keep_hosts_and_paths_but_no_secrets() -> None:
    text = f"http://ann:geheim@10.0.0.1:80/x?sig=abcdef token=xyz /srv/lake Bearer {JWT}"
    kept = scrub_secrets(text)
    assert "10.0.0.1:80" in kept
    assert "/srv/lake" in kept
    assert not any(secret in kept for secret in ("geheim", "abcdef", "xyz", JWT))


WORDS = st.text(alphabet=string.ascii_letters + " ,.;:()'\"=-_\n", max_size=60)
SECRET_VALUES = st.text(alphabet=string.ascii_lowercase + string.digits, min_size=12, max_size=40).filter(
    lambda value: any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
)
SECRET_CARRIERS = (
    "password={}",
    "PASSWORD '{}'",
    "IDENTIFIED BY '{}'",
    'OPTIONS (password "{}")',
    "OPTIONS (fs.s3a.secret.key '{}')",
    "OPTIONS ('account.key' '{}')",
    "PA\u017f\u017fWORD={}",
    "pwd={}",
    "secret = {}",
    "?sas={}",
    "bws_{}_longer",
    "bw_0123456789ab_{}",
    "X-Bailiwick-Session: {}",
    '"bailiwick.stamp": "{}"',
    '"access_token": "{}"',
    "Authorization: Bearer {}",
    "spark.hadoop.fs.s3a.access.key={}",
    "fs.azure.account.key.acc.dfs.core.windows.net={}",
    "https://user:{}@host.example/path",
    "https://host.example/x?X-Amz-Signature={}&y=1",
    "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
)
CARRIERS = st.sampled_from(
    [
        *SECRET_CARRIERS,
        "s3://bucket/{}",
        "file:/srv/{}/x",
        "/srv/lake/{}",
        "http://{}.example:8181/v1",
        "jdbc:postgresql://db/{}",
    ]
)


@given(before=WORDS, carrier=CARRIERS, secret=SECRET_VALUES, after=WORDS)
def test_no_planted_secret_survives(before: str, carrier: str, secret: str, after: str) -> None:
    assert secret not in scrub(f"{before} {carrier.format(secret)} {after}")


@given(before=WORDS, carrier=st.sampled_from(SECRET_CARRIERS), secret=SECRET_VALUES, after=WORDS)
def test_no_planted_secret_survives_in_a_log(before: str, carrier: str, secret: str, after: str) -> None:
    assert secret not in scrub_secrets(f"{before} {carrier.format(secret)} {after}")


@given(before=WORDS, carrier=CARRIERS, secret=SECRET_VALUES, after=WORDS)
def test_scrubbing_twice_changes_nothing_more(before: str, carrier: str, secret: str, after: str) -> None:
    once = scrub(f"{before} {carrier.format(secret)} {after}")
    assert scrub(once) == once


@pytest.mark.parametrize(
    "text",
    [
        piece * (100_000 // len(piece))
        for piece in (
            "a.",
            "/a",
            ":",
            "password",
            "\n\tat ",
            "=",
            "0:",
            "a@",
            "://",
            '"',
            "token='",
            "1.1.",
            "(",
        )
    ],
    ids=lambda text: repr(text[:8]),
)
def test_no_text_takes_long_to_scrub(text: str) -> None:
    began_at = time.monotonic()
    assert len(scrub(text)) <= 2 * TEXT_LENGTH_MAX
    assert time.monotonic() - began_at < 1
