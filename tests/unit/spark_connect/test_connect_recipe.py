"""What a session is made of: what is kept of it, what goes, and what is said when too much has gathered."""

from bailiwick.doors.spark_connect.recipe import STEPS_MAX, DropView, MakeView, Recipe, Use


def view(name: str, mentions: str = "", plan: bytes = b"plan", *, is_of_frame: bool = True) -> MakeView:
    return MakeView(name, plan, is_of_frame, mentions)


def test_a_new_session_has_nothing_to_be_made_again() -> None:
    assert Recipe().is_empty
    assert not Recipe().has_frames
    assert not Recipe().with_conf("a", "1").is_empty


def test_a_setting_counts_once_and_can_be_taken_back() -> None:
    recipe = Recipe().with_conf("a", "1").with_conf("b", "2").with_conf("a", "3")
    assert recipe.confs == {"a": "3", "b": "2"}
    assert recipe.without_conf("a").confs == {"b": "2"}
    assert recipe.without_conf("unknown") == recipe


def test_of_places_the_last_two_are_kept() -> None:
    recipe = Recipe().with_use(b"1").with_use(b"2").with_use(b"3")
    assert recipe.uses == (Use(b"2"), Use(b"3"))
    assert recipe.with_use(b"2").uses == (Use(b"3"), Use(b"2"))


def test_a_view_takes_the_place_of_one_of_the_same_name_whatever_its_case() -> None:
    recipe = Recipe().with_view(view("v", plan=b"1")).with_view(view("V", plan=b"2"))
    assert recipe.steps == (view("V", plan=b"2"),)
    assert recipe.views == ("v",)


def test_a_view_that_is_made_of_one_of_its_own_name_keeps_that_one() -> None:
    first, second = view("v", "lake.sales.orders"), view("v", "select * from V")
    assert Recipe().with_view(first).with_view(second).steps == (first, second)


def test_a_view_that_others_are_made_of_is_kept_and_then_dropped() -> None:
    recipe = (
        Recipe().with_view(view("base")).with_view(view("top", "select * from base")).without_view("base")
    )
    assert recipe.steps == (view("base"), view("top", "select * from base"), DropView("base"))
    assert recipe.views == ("top",)


def test_a_name_inside_another_name_is_no_mention() -> None:
    recipe = Recipe().with_view(view("a")).with_view(view("b", "data, a_b")).without_view("a")
    assert recipe.steps == (view("b", "data, a_b"),)


def test_dropping_what_is_not_there_changes_nothing() -> None:
    recipe = Recipe().with_view(view("v"))
    assert recipe.without_view("w") is recipe


def test_too_many_views_are_said_to_be_lost_rather_than_forgotten() -> None:
    recipe = Recipe()
    for number in range(STEPS_MAX + 1):
        recipe = recipe.with_view(view(f"v{number}"))
    assert recipe.lost is not None


def test_only_views_of_frames_hold_what_was_decided() -> None:
    assert not Recipe().with_view(view("v", is_of_frame=False)).has_frames
    assert Recipe().with_view(view("v")).has_frames
