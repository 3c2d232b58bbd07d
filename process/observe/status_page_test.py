"""The status page of a job that lives, in a browser and as text."""

import http.server
import json
import re
import signal
import threading
import time
import unittest
import urllib.request

from tests.cluster import browser
from tests.cluster.browser import DESKTOP, PHONE
from tests.cluster.paramd import Cluster, draw_addresses

# What a browser itself writes to the console if nobody answers.
GONE = re.compile(r"net::ERR_(CONNECTION_(REFUSED|RESET)|EMPTY_RESPONSE)")

SCREENS = {
    "desktop_light": (DESKTOP, False),
    "desktop_dark": (DESKTOP, True),
    "phone_light": (PHONE, False),
    "phone_dark": (PHONE, True),
}

# Texts that are hard to read: smaller than 9 pixels, or of a colour too near to what
# is behind them, which is a contrast below WCAG's 4.5, with what is half transparent
# laid over what is below it.
ILLEGIBLE = """
const numbers = (colour) => {
  const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
  return {r, g, b, a};
};
const over = (top, below) => ({
  r: top.r * top.a + below.r * (1 - top.a),
  g: top.g * top.a + below.g * (1 - top.a),
  b: top.b * top.a + below.b * (1 - top.a), a: 1});
const light = ({r, g, b}) => {
  const [x, y, z] = [r, g, b].map((value) => value / 255).map((value) =>
      value <= .04045 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4);
  return .2126 * x + .7152 * y + .0722 * z;
};
const found = [];
for (const part of document.body.querySelectorAll("*")) {
  const hasText = [...part.childNodes].some(
      (node) => node.nodeType === 3 && /[\\p{L}\\p{N}]/u.test(node.data));
  if (!hasText || !part.checkVisibility()) continue;
  const style = getComputedStyle(part);
  const chain = [];
  for (let at = part; at; at = at.parentElement) chain.push(at);
  let behind = {r: 255, g: 255, b: 255, a: 1}, opacity = 1;
  for (const at of chain.reverse()) {
    const own = getComputedStyle(at);
    behind = over(numbers(own.backgroundColor), behind);
    opacity *= Number(own.opacity);
  }
  const ink = numbers(part.namespaceURI.endsWith("svg") ? style.fill : style.color);
  const size = parseFloat(style.fontSize) *
      (part.getScreenCTM ? part.getScreenCTM().a : 1);
  if (size < 9) found.push(
      `${size.toFixed(1)} px: ${part.textContent.slice(0, 40)}`);
  const [a, b] = [light(over({...ink, a: ink.a * opacity}, behind)),
                  light(behind)];
  const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (contrast < 4.5) found.push(
      `${contrast.toFixed(2)}: ${part.textContent.slice(0, 40)}`);
}
return found;
"""


class Between:
    """Hands requests on to `target`, a process's page, and counts them.

    `change`: a function that makes of what /status.json gave, as bytes, what the
    browser gets.
    """

    def __init__(self, target):
        self.change = lambda content: content
        self.questions = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):

            def do_GET(self):
                asked = urllib.request.Request(
                    target + self.path[1:],
                    headers={"Accept": self.headers["Accept"]})
                with urllib.request.urlopen(asked) as answer:
                    content = answer.read()
                    headers = answer.headers
                if self.path.startswith("/status.json"):
                    outer.questions += 1
                    content = outer.change(content)
                self.send_response(200)
                for name, value in headers.items():
                    if name not in ("Content-Length", "Connection"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class LiveJob:
    """A tiny job of two servers and two workers, all of which serve a page.

    `add_cleanup`: that of the test or of its class.
    """

    def __init__(self, add_cleanup):
        self.add_cleanup = add_cleanup
        self.cluster = Cluster(servers=2, workers=2)
        host = draw_addresses(len(self.cluster.tasks))[0].split(":", maxsplit=1)[0]
        self.pages = {task: f"{host}:{9090 + i}"
                      for i, task in enumerate(self.cluster.tasks)}
        self.runs = {}

    def start(self, *tasks, flags=(), epochs=1000000):
        for task in tasks:
            run = self.runs[task] = self.cluster.start(
                task, f"--epochs={epochs}",
                f"--metrics_address={self.pages[task]}", *flags)
            self.add_cleanup(run.kill)
        for task in tasks:
            self.runs[task].wait_for("serving metrics")

    def start_all(self, *flags, epochs=1000000):
        self.start(*self.cluster.tasks, flags=flags, epochs=epochs)
        self.runs["worker-0"].wait_for("worker-1 joined")

    def url(self, task):
        return f"http://{self.pages[task]}/"

    def kill(self, task):
        self.runs[task].signal(signal.SIGKILL)


class PageTest(unittest.TestCase):
    """What the tests in a browser share."""

    @classmethod
    def setUpClass(cls):
        browser.need_browser()
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.is_gone = False  # Whether the page's process is to be.
        self.browser.screen(DESKTOP)

    def open(self, task, verdict=r"^trains: epoch "):
        self.host = self.job.pages[task]
        self.browser.open(self.job.url(task))
        self.browser.wait_for("#verdict", verdict)
        self.browser.wait_for("#processes", "worker-1")

    def look(self, name):
        """What holds for each screen, and a picture of it."""
        for screen, (size, dark) in SCREENS.items():
            with self.subTest(name=name, screen=screen):
                self.browser.screen(size, dark)
                self.browser.picture(f"{name}_{screen}")
                width, needed = self.browser.run(
                    "return [innerWidth, document.documentElement.scrollWidth]")
                self.assertEqual(width, size[0])
                # Wide tables scroll by themselves. A scroll bar of the page takes
                # some of the width while a picture of it is taken.
                self.assertLessEqual(needed, width)
                self.assertEqual(self.browser.run(ILLEGIBLE), [])
        self.browser.screen(DESKTOP)

    def assert_red(self, selector):
        colours = self.browser.run(
            "return [...document.querySelectorAll(arguments[0])].map("
            "(found) => getComputedStyle(found).color)", selector)
        self.assertGreater(len(colours), 0)
        for colour in colours:
            red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
            self.assertGreater(red, 2 * max(green, blue))

    def assert_quiet(self):
        """Nothing was logged, forbidden or asked for elsewhere."""
        messages = self.browser.messages()
        if self.is_gone:
            messages = [text for text in messages if not GONE.search(text)]
        self.assertEqual(messages, [])
        self.assertEqual(self.browser.violations(), [])
        requests = self.browser.requests()
        self.assertGreater(len(requests), 0)
        for url in requests:
            self.assertRegex(url, rf"^(http://{re.escape(self.host)}/|data:,$)")


class LiveJobTest(PageTest):
    """One job for all, to which nothing happens."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.job = LiveJob(cls.addClassCleanup)
        cls.job.start_all()

    def open_between(self):
        """The chief's page, as a server between changes it."""
        between = Between(self.job.url("worker-0"))
        self.addCleanup(between.close)
        self.host = between.url.split("/")[2]
        self.browser.open(between.url)
        self.browser.wait_for("#verdict", "^trains: ")
        return between

    def test_a_job_that_trains(self):
        self.open("worker-0")
        rows = self.browser.text("#processes td:first-child").split("\n")
        self.assertEqual(sorted(rows),
                         ["ps-0", "ps-1", "worker-0 (chief)", "worker-1"])
        self.assertTrue(self.browser.driver.title.startswith("tiny: trains: "))
        self.browser.wait_for(".figure:first-child b", "^0$")
        self.browser.wait_for("#curves", "Examples a second: now ")
        self.assertEqual(
            self.browser.run("return document.querySelectorAll("
                             "'#topology .box').length"), 4)
        # What was measured, as soon as there are two reports.
        self.browser.wait_for("#topology", r"ps-0 · \w+( answer)?\s*"
                              r"(busy|idle|waiting) \d+ % · [\d.]+ k?M?B/s")
        self.browser.wait_for("#slices tr:first-child",
                              r"^dense\S*\s+ps-\d\s+[\d,]+\s+[\d,.]+$")
        self.browser.wait_for("#curves", "Memory of the fullest server: now "
                              r"[\d.]+ k?M?B")
        self.assertEqual(self.browser.text("#age.bad"), "")
        self.look("trains")
        self.assert_quiet()

    def test_tables_stand_in_the_order_of_their_lookups(self):
        self.open("worker-0")
        rows = self.browser.run("""
            const table = (variable, looked_up) => ({
              variable, looked_up, rows: 1, capacity: 2, created: 1, evicted: 0,
              ignored: 0, warning: ""});
            const rows = () => [...at("tables").rows].map(
                (row) => row.cells[0].innerText + " " + row.cells[7].innerText);
            showTables([table("a", 10), table("b", 20)], 5);
            const first = rows();
            showTables([table("a", 110), table("b", 40)], 7);
            const second = rows();
            // The same report once more, and a server that began anew.
            showTables([table("a", 110), table("b", 40)], 7);
            const third = rows();
            showTables([table("a", 1), table("b", 60)], 8);
            return [first, second, third, rows()];""")
        self.assertEqual(rows, [["b –", "a –"], ["a 50", "b 10"],
                                ["a 50", "b 10"], ["b 20", "a –"]])

    def test_a_page_that_nobody_sees_asks_for_nothing(self):
        between = self.open_between()
        self.browser.hide()
        # What it has asked may still be answered.
        self.browser.wait_for("#age", r"^[2-9] s old")
        asked = between.questions
        self.browser.wait_for("#age.bad", r"^[6-9] s old$")
        self.assertEqual(between.questions, asked)
        self.browser.show()
        self.browser.wait_for("#age:not(.bad)", r"^[01] s old$")
        self.assertGreater(between.questions, asked)
        self.assert_quiet()

    def test_text_of_others_is_never_markup(self):
        lie = ("<img src=x onerror=alert(1)><script>alert(2)</script>"
               "&lt;b&gt;\x1b[31m\u202e\"'\\u003cb\\u003e")
        between = self.open_between()

        def lying(content):
            def everywhere(value):
                if isinstance(value, dict):
                    # Levels are of the page's own words.
                    return {name: value if name == "level" else everywhere(value)
                            for name, value in value.items()}
                if isinstance(value, list):
                    return [everywhere(part) for part in value]
                return lie if isinstance(value, str) else value
            page = json.loads(content)
            page["tables"] = [{"variable": "", "rows": 1, "capacity": 1,
                               "created": 1, "evicted": 0, "ignored": 0,
                               "looked_up": 0, "warning": ""}]
            page["events"] = [{"number": 1, "unix_seconds": 1, "text": "",
                               "level": "BAD"}]
            page["slices"] = [{"server": "", "name": "", "named_blocks": 1}]
            page["processes"][0]["waits"] = [""]
            return json.dumps(everywhere(page)).encode()
        between.change = lying
        self.browser.wait_for("#verdict", "img src")
        shown = self.browser.run(
            "return ['#job', '#verdict', '#seen-by', '#figures b',"
            " '#processes td', '#processes small', '#tables td',"
            " '#tables small', '#slices td', '#events li', '#topology text']"
            ".map((one) => document.querySelector(one).textContent)")
        for text in shown:
            self.assertIn(lie, text)
        self.assertEqual(self.browser.run(
            "return [document.images.length, document.scripts.length,"
            " document.querySelectorAll('main b b, h1 *').length]"), [0, 1, 0])
        self.look("markup")
        self.assert_quiet()

    def test_an_answer_that_is_none_is_no_answer(self):
        between = self.open_between()
        for nonsense in (b"{", b"null", b"<html>a proxy's own page</html>"):
            between.change = lambda _, nonsense=nonsense: nonsense
            self.browser.wait_for("#age.bad", "^no answer: these figures are ")
            between.change = lambda content: content
            self.browser.wait_for("#age:not(.bad)", r"^\d+ s old$")
        self.assert_quiet()

    def test_the_policy_lets_nothing_else_in(self):
        # So that a page of which nothing is forbidden has been watched.
        self.open("worker-0")
        elsewhere = self.job.url("ps-0")
        self.browser.run("""
            const add = (name, settings) => document.body.append(
                Object.assign(document.createElement(name), settings));
            add("script", {textContent: "document.title = 'taken'"});
            add("style", {textContent: "body { display: none }"});
            add("img", {src: arguments[0]});
            add("iframe", {src: arguments[0]});
            document.querySelector("h1").setAttribute("style", "color: red");
            fetch(arguments[0] + "status.json").catch(() => 0);
            """, elsewhere)
        stopped = {}
        while len(stopped) < 6:
            stopped = {text.split()[0] for text in self.browser.violations()}
        self.assertEqual(stopped, {
            "script-src-elem", "style-src-elem", "style-src-attr", "img-src",
            "frame-src", "connect-src"})
        self.assertNotEqual(self.browser.driver.title, "taken")
        self.assertNotEqual(self.browser.messages(), [])

    def test_a_browser_without_scripts_is_told_what_to_do(self):
        self.browser.without_scripts(True)
        try:
            self.browser.open(self.job.url("worker-0"))
            self.browser.picture("without_scripts")
        finally:
            self.browser.without_scripts(False)
        self.assertIn("needs JavaScript", self.browser.text("noscript"))
        self.assertEqual(self.browser.messages(), [])


class FailingJobTest(PageTest):
    """A job for each."""

    def start_all(self):
        self.job = LiveJob(self.addCleanup)
        self.job.start_all()

    def test_a_killed_process_is_named_and_comes_back(self):
        self.start_all()
        self.open("worker-0")
        self.job.kill("worker-1")
        self.browser.wait_for("#processes tr:first-child.bad",
                              r"worker-1\s+no answer")
        self.browser.wait_for("#verdict.bad", "worker-1")
        self.browser.wait_for(".figure.bad:first-child b", "^1$")
        self.browser.wait_for("#topology", "worker-1 · no answer")
        self.browser.wait_for("#events", "worker-1: .* → no answer")
        self.assert_red("#verdict, .figure.bad:first-child b, "
                        "#processes tr:first-child td:nth-child(2)")
        self.look("worker_killed")

        self.job.kill("ps-1")
        self.browser.wait_for("#processes", r"ps-1\s+no answer")
        self.browser.wait_for(".figure.bad:first-child b", "^2$")
        self.browser.wait_for("#events", "ps-1: .* → no answer")
        self.look("server_killed")

        self.job.start("ps-1", "worker-1")
        self.browser.wait_for(".figure.good:first-child b", "^0$")
        self.browser.wait_for("#verdict", r"^trains: ")
        self.browser.wait_for("#events", "worker-1: no answer → ")
        self.browser.wait_for("#events", "ps-1: no answer → ")
        self.assert_quiet()

    def test_a_page_of_a_server_outlives_the_chief(self):
        self.start_all()
        self.open("ps-0")
        self.browser.wait_for("footer", "as ps-0 sees it")
        self.job.kill("worker-0")
        self.browser.wait_for("#verdict.bad", "the job is not known: ")
        self.browser.wait_for(".figure.bad:first-child b", "^–$")
        self.look("chief_killed")
        self.assert_quiet()

    def test_a_page_whose_process_is_gone_says_so_in_red(self):
        self.start_all()
        self.open("worker-1")
        self.job.kill("worker-1")
        self.is_gone = True
        self.browser.wait_for("#age.bad",
                              r"^no answer: these figures are \d+ s old$")
        self.assert_red("#age")
        self.look("gone")
        # It goes on by itself when there is a process again.
        self.job.start("worker-1")
        self.browser.wait_for("#age:not(.bad)", r"^\d+ s old$")
        self.browser.wait_for("#verdict", r"^trains: ")
        self.assert_quiet()

    def test_a_job_that_has_finished_and_stays(self):
        self.job = LiveJob(self.addCleanup)
        self.job.start_all("--linger_when_finished", epochs=200)
        self.open("worker-0", r"^finished: epoch 200\.00 of 200")
        self.browser.wait_for("#verdict.good", ", test accuracy ")
        self.look("finished")
        self.assert_quiet()

    def test_a_page_that_is_open_says_how_the_job_ended(self):
        self.job = LiveJob(self.addCleanup)
        self.job.start_all(epochs=2000)
        self.open("worker-0")
        self.is_gone = True
        self.assertEqual(self.job.runs["worker-0"].wait(), 0)
        self.browser.wait_for("#age.bad", "^no answer: ")
        self.assertRegex(self.browser.text("#verdict.good"), "^finished: ")
        self.look("finished_and_gone")
        self.assert_quiet()


class StatusFiguresTest(unittest.TestCase):
    """Without a browser."""

    def test_every_process_serves_the_same_page(self):
        cluster = Cluster(servers=1, workers=1)
        urls = {}
        for task in ("ps-0", "worker-0"):
            run = cluster.start(task, "--epochs=1000000",
                                "--metrics_address=127.0.0.1:0")
            self.addCleanup(run.kill)
            run.wait_for("serving metrics")
            urls[task] = re.search(r"serving metrics url=(\S+)metrics",
                                   run.output)[1]
        for task, url in urls.items():
            page = {"verdict": ""}
            while not page["verdict"].startswith("trains: "):
                with urllib.request.urlopen(url + "status.json") as answer:
                    page = json.loads(answer.read())
            self.assertEqual(page["job"], "tiny")
            self.assertEqual(page["seen_by"], task)
            with urllib.request.urlopen(url) as answer:  # As curl asks.
                self.assertEqual(answer.headers["Content-Type"],
                                 "text/plain; charset=utf-8")
                self.assertRegex(answer.read().decode(),
                                 r"\A(trains|waits|starts)")
            with urllib.request.urlopen(url + "config") as answer:
                self.assertIn("epochs", answer.read().decode())
            browser = urllib.request.Request(url,
                                             headers={"Accept": "text/html"})
            with urllib.request.urlopen(browser) as answer:
                self.assertIn("default-src 'none'",
                              answer.headers["Content-Security-Policy"])


if __name__ == "__main__":
    unittest.main()
