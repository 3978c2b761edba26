"""Worldlines as a person reads and reviews them."""

from playwright.sync_api import expect

from tests.mind.workspace import repositories


def test_graph_opens_conversations(scene):
    page = scene.go(f"/runs/{scene.sample_store.texts}/worldlines?island=1")
    nodes = page.locator(".graph-frame .graph-node")
    expect(page.get_by_role("heading", name="Worldlines of island 1, one of 2")).to_be_visible()
    expect(page.get_by_role("list", name="Legend of the graph")).to_contain_text("solved: larger and green")
    expect(nodes).to_have_count(12)
    expect(page.locator(".graph-lines path").first).to_be_attached()
    nodes.nth(11).click()
    expect(page.locator(".dialogue > li")).to_have_count(2)
    expect(page.locator(".graph-frame .graph-node.chosen")).to_have_count(1)
    expect(page.locator(".terms").first).to_contain_text("task progress")
    page.get_by_label("Island").select_option("0")
    expect(page).to_have_url(f"{scene.base}/#/runs/{scene.sample_store.texts}/worldlines?island=0")
    expect(page.get_by_text("has no workspaces")).to_be_visible()


def test_worldline_is_read_approved_and_merged(scene):
    page = scene.go(f"/runs/{scene.sample_store.workspace}/worldlines/1")
    expect(page.get_by_label("critique")).to_contain_text("<script>window.hacked = 1</script>")
    expect(page.get_by_label("critique").locator(".hidden-mark").first).to_have_text("RLO")
    review = page.locator(".review")
    expect(review.locator(".badge")).to_have_text("waits")
    expect(review.locator(".line.added")).to_contain_text('<svg onload="window.hacked = 3">')
    expect(page.get_by_role("button", name="Merge into the repository")).to_have_count(0)
    form = f"Review {review.locator('h3 code').inner_text()}"
    expect(scene.sign(form, "ann", "", "Approve")).to_have_text("Enter a reason.")
    scene.is_refused = True
    expect(scene.sign(form, "Atoll", "mine", "Approve")).to_contain_text("wrote this worldline and cannot approve it")
    scene.sign(form, "ann", "it adds", "Approve")
    expect(review.locator(".badge")).to_have_text("approved")
    page.get_by_role("button", name="Merge into the repository").click()
    expect(review.locator(".badge")).to_have_text("merged")
    assert "return a + b" in (scene.sample_store.repository / "sums.py").read_text()
    assert "Approved-by: ann" in repositories.git(scene.sample_store.repository, "log", "-1", "--format=%B")
