"""Which engines are started anew, and which are left alone."""

from dataclasses import replace

from bailiwick.fleet.memory import Watermark
from bailiwick.fleet.recycling import Wear, Worn, to_recycle
from bailiwick.fleet.report import TRUSTED
from bailiwick.ids import NodeId

WEAR = Wear(age_max_s=1000, red_max_s=60)
NEW = Worn(NodeId("new"), joined_at=900, is_healthy=True, is_drained=False)
OLD = Worn(NodeId("old"), joined_at=0, is_healthy=True, is_drained=False)
RED = Worn(NodeId("red"), joined_at=950, is_healthy=True, is_drained=False, red_since=940)
CODERS = Worn(NodeId("coders"), joined_at=0, is_healthy=True, is_drained=False, engine_class=TRUSTED)


def test_an_engine_that_is_old_is_started_anew() -> None:
    assert to_recycle([NEW, OLD], WEAR, 999) is None
    assert to_recycle([NEW, OLD], WEAR, 1000) == ("old", "it has run for long enough")


def test_one_whose_memory_stays_at_red_comes_first() -> None:
    assert to_recycle([NEW, RED, OLD], WEAR, 1000) == ("red", "its memory stays at the red watermark")
    assert to_recycle([NEW, RED], WEAR, 999) is None


def test_a_moment_at_red_is_forgiven() -> None:
    engine = replace(NEW, red_since=NEW.noticed(Watermark.RED, 5))
    assert engine.red_since == 5
    assert engine.noticed(Watermark.RED, 50) == 5
    assert engine.noticed(Watermark.ORANGE, 50) is None


def test_the_last_engine_that_works_goes_on_however_worn_it_is() -> None:
    assert to_recycle([OLD], WEAR, 5000) is None
    assert to_recycle([OLD, replace(NEW, is_healthy=False)], WEAR, 5000) is None


def test_the_last_engine_is_started_anew_when_its_memory_stays_at_red_for_then_it_does_not_work() -> None:
    assert to_recycle([RED], WEAR, 999) is None
    assert to_recycle([RED], WEAR, 1000) == ("red", "its memory stays at the red watermark")


def test_red_is_not_held_against_an_engine_while_something_at_work_explains_it() -> None:
    assert NEW.noticed(Watermark.RED, 5, is_idle=False) is None
    assert replace(NEW, red_since=5).noticed(Watermark.RED, 50, is_idle=False) is None


def test_engines_are_started_anew_one_at_a_time() -> None:
    drained = replace(OLD, node_id=NodeId("other"), is_healthy=False, is_drained=True)
    assert to_recycle([NEW, OLD, drained], WEAR, 5000) is None


def test_the_last_of_its_class_goes_on_however_many_of_other_classes_work() -> None:
    assert to_recycle([OLD, CODERS], WEAR, 5000) is None
    assert to_recycle([OLD, CODERS, replace(CODERS, node_id=NodeId("more"))], WEAR, 5000) == (
        "coders",
        "it has run for long enough",
    )
    red = replace(RED, engine_class=TRUSTED)
    assert to_recycle([OLD, red], WEAR, 1000) == ("red", "its memory stays at the red watermark")


def test_nobody_waits_for_an_engine_of_another_class_that_drains() -> None:
    endless = replace(CODERS, is_healthy=False, is_drained=True)
    assert to_recycle([NEW, OLD, endless], WEAR, 1000) == ("old", "it has run for long enough")
    assert to_recycle([endless, replace(CODERS, node_id=NodeId("more"))], WEAR, 5000) is None
