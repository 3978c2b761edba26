"""Snapshots API: turns of survival episodes."""


def test_snapshots_list_saved_turns_in_order(authorized_client, sample_store):  # B20
    positions: list[tuple[int, int]] = []
    after: dict[str, str] = {}
    while True:
        page = authorized_client.get("/snapshots", params={"run": sample_store.lives, "limit": 40, **after}).json()
        positions += [(turn["episode"], turn["turn"]) for turn in page["snapshots"]]
        after = {"after": page["next"]}
        if not page["has_more"]:
            break
    assert positions == sorted(set(positions))
    assert {episode for episode, _ in positions} == {1, 2, 3}
    assert page["is_live"] is False
    assert authorized_client.get("/snapshots", params={"run": sample_store.lives, **after}).json()["snapshots"] == []


def test_mind_run_has_no_snapshots(authorized_client, sample_store):
    assert authorized_client.get("/snapshots", params={"run": sample_store.texts}).json()["snapshots"] == []
