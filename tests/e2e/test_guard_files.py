"""A table's files are those under its stamp's prefixes: the Java that engines use is asked, without one."""

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest

from bailiwick.engines.jars import Jars, cache_directory, compile_jar, ensure_jars, pinned
from bailiwick.engines.java import Java, find_java

pytestmark = pytest.mark.timeout(300)

ASK = """
import io.bailiwick.ConfinedFileIO;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;

public class Ask {
  interface Use { void of(ConfinedFileIO files, String path); }

  public static void main(String[] arguments) throws Exception {
    ConfinedFileIO files = new ConfinedFileIO();
    files.setConf(new Configuration(false));
    files.initialize(arguments.length == 0 ? Map.of() : Map.of("bailiwick.stamp", arguments[0]));
    List<Use> uses = List.of(
        (io, path) -> io.newInputFile(path), (io, path) -> io.newInputFile(path, 1),
        (io, path) -> io.newOutputFile(path), ConfinedFileIO::deleteFile,
        (io, path) -> io.deleteFiles(List.of(path)), (io, path) -> io.listPrefix(path).iterator(),
        ConfinedFileIO::deletePrefix);
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String path = lines.readLine(); path != null; path = lines.readLine()) {
      int refused = 0;
      for (Use use : uses) {
        try {
          use.of(files, path);
        } catch (Exception error) {
          refused += error.getClass().getName().equals("io.bailiwick.Denied") ? 1 : 0;
        }
      }
      System.out.println(refused + " " + uses.size());
    }
  }
}
"""


class Asked:
    """Says of paths whether every use of them is refused, or none is."""

    def __init__(self, java: Java, jars: Jars, directory: Path) -> None:
        source = directory / "Ask.java"
        source.write_text(ASK, encoding="utf-8")
        compiler = cache_directory() / "jars" / pinned()["ecj"].file_name
        on_class_path = os.pathsep.join((str(jars.guard), str(jars.iceberg), f"{jars.pyspark}/*"))
        compile_jar(java, compiler, [source], on_class_path, directory / "ask.jar")
        self._command = [
            str(java.executable),
            "-cp",
            f"{directory / 'ask.jar'}{os.pathsep}{on_class_path}",
            "Ask",
        ]

    def refused(self, prefixes: list[str] | None, paths: list[str]) -> list[bool]:
        stamp = [] if prefixes is None else [_stamp(prefixes)]
        done = subprocess.run(
            [*self._command, *stamp],
            input="\n".join(paths) + "\n",
            capture_output=True,
            text=True,
            check=True,
        )
        counts = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
        assert len(counts) == len(paths), done.stderr
        assert all(refused in (0, uses) for refused, uses in counts), counts
        return [refused > 0 for refused, _ in counts]


def _stamp(prefixes: list[str]) -> str:
    body = base64.urlsafe_b64encode(json.dumps({"prefixes": prefixes}).encode()).decode().rstrip("=")
    return f"{body}.00"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    java = find_java(None)
    return Asked(java, ensure_jars(java), tmp_path_factory.mktemp("ask"))


def test_only_paths_under_a_prefix_are_used(asked: Asked, tmp_path: Path) -> None:
    table, other = tmp_path / "table", tmp_path / "other"
    for directory in (table / "data", other):
        directory.mkdir(parents=True)
    (table / "leads-out").symlink_to(other)
    (table / "leads-in").symlink_to(table / "data")
    (table / "leads-nowhere").symlink_to(other / "not-yet")
    inside = [
        f"file:{table}/data/x",
        f"file://{table}/data/x",
        f"{table}/data/x",
        f"file:{table}//data///x",
        f"file:{table}/data/region=a%2Fb/x",
        f"FILE:{table}/data/x",
        f"file:{table}/leads-in/x",
    ]
    outside = [
        f"file:{other}/x",
        f"file:{table}2/x",
        f"file:{table}/../other/x",
        f"file:{table}/data/../../other/x",
        f"file:{table}/%2e%2e/other/x",
        f"file:{table}/%2E%2E/other/x",
        f"file:{table}/./data/x",
        f"file:{table}\\..\\other",
        f"file://host{table}/x",
        f"hdfs:{table}/x",
        f"s3:/{table}/x",
        f"file:{table}/leads-out/x",
        f"file:{table}/leads-nowhere",
        "file:data/x",
        "data/x",
        "file:",
        "/etc/passwd",
        "file:///etc/passwd",
    ]
    assert asked.refused([f"file:{table}/"], inside) == [False] * len(inside)
    assert asked.refused([f"file:{table}/"], outside) == [True] * len(outside)


def test_without_a_stamp_there_are_no_files(asked: Asked, tmp_path: Path) -> None:
    assert asked.refused(None, [f"file:{tmp_path}/x", "s3://bucket/x"]) == [True, True]


def test_buckets_are_told_apart(asked: Asked) -> None:
    paths = ["s3://bucket/table2/x", "s3://bucket2/table/x", "s3://bucket/table/../x", "s3a://bucket/table/x"]
    assert asked.refused(["s3://bucket/table/"], paths) == [True] * len(paths)
