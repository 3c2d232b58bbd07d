"""The status page of a job that lives, in a browser that nobody looks at."""

import json
import os
import re
import shutil
import signal
import time
import unittest
import urllib.request

from tests.cluster.paramd import Cluster

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    webdriver = None

# What counts as an error of the page: all but that its process is gone.
GONE = "net::ERR_CONNECTION_REFUSED"


def need_browser():
    if webdriver is None or not shutil.which("chromedriver"):
        raise unittest.SkipTest(
            "needs Debian's chromium-driver and python3-selenium")


class StatusPageTest(unittest.TestCase):

    def setUp(self):
        need_browser()
        self.cluster = Cluster(servers=2, workers=2)
        self.runs = {}
        for task in ("ps-0", "ps-1", "worker-0", "worker-1"):
            self.start(task)
        self.runs["worker-0"].wait_for("worker-1 joined")
        self.url = self.urls["worker-0"]
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu",
                         "--disable-dev-shm-usage", "--window-size=1200,1400",
                         f"--user-data-dir={os.environ['TEST_TMPDIR']}/browser"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs",
                               {"browser": "ALL", "performance": "ALL"})
        self.browser = webdriver.Chrome(
            options=options, service=Service(shutil.which("chromedriver")))
        self.addCleanup(self.browser.quit)

    def start(self, task):
        run = self.cluster.start(task, "--epochs=1000000",
                                 "--metrics_address=127.0.0.1:0")
        self.addCleanup(run.kill)
        run.wait_for("serving metrics")
        self.urls = getattr(self, "urls", {})
        self.urls[task] = re.search(r"serving metrics url=(\S+)metrics",
                                    run.output)[1]
        self.runs[task] = run

    def text(self, selector):
        # At once: the page draws anew meanwhile.
        return self.browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])]"
            ".map((found) => found.innerText ?? found.textContent)"
            ".join('\\n')", selector)

    def wait_for(self, selector, pattern):
        """Until what is there says so: a test's own limit ends it else."""
        while not re.search(pattern, self.text(selector)):
            time.sleep(0.1)

    def picture(self, name):
        folder = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")
        if folder:
            self.browser.save_screenshot(os.path.join(folder, f"{name}.png"))

    def complaints(self):
        return [entry["message"] for entry in self.browser.get_log("browser")
                if GONE not in entry["message"]]

    def requests(self):
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                yield message["params"]["request"]["url"]

    def test_it_shows_how_the_job_is_from_beginning_to_end(self):
        self.browser.get(self.url)
        self.wait_for("#verdict", r"^trains: epoch ")
        self.assertEqual(self.browser.title[:14], "tiny: trains: ")
        self.wait_for("#processes", "worker-1")
        rows = self.text("#processes td:first-child").split("\n")
        self.assertEqual(sorted(rows),
                         ["ps-0", "ps-1", "worker-0 (chief)", "worker-1"])
        self.wait_for(".figure:first-child b", "^0$")
        self.wait_for("#curves", "Examples a second: now ")
        self.assertEqual(
            len(self.browser.find_elements("css selector",
                                           "#topology .box")), 4)
        # What was measured, as soon as there are two reports.
        self.wait_for("#topology", r"ps-0 · \w+( answer)?\s*"
                      r"(busy|idle|waiting) \d+ % · [\d.]+ k?M?B/s")
        self.wait_for("#slices tr:first-child",
                      r"^dense\S*\s+ps-\d\s+[\d,]+\s+[\d,.]+$")
        self.wait_for("#curves", "Memory of the fullest server: now "
                      r"[\d.]+ k?M?B")
        self.picture("trains")

        self.runs["worker-1"].kill()
        self.wait_for("#processes tr:first-child", r"worker-1\s+no answer")
        self.wait_for("#verdict.bad", "worker-1")
        self.wait_for(".figure.bad:first-child b", "^1$")
        self.picture("a_worker_is_gone")

        self.runs["ps-1"].kill()
        self.wait_for("#processes", r"ps-1\s+no answer")
        self.wait_for("#events", "ps-1: alive → no answer")
        self.browser.set_window_size(390, 844)
        self.picture("phone")
        # Wide tables scroll by themselves.
        self.assertLessEqual(self.browser.execute_script(
            "return document.documentElement.scrollWidth"), self.browser
            .execute_script("return window.innerWidth"))

        self.runs["worker-0"].signal(signal.SIGKILL)
        self.wait_for("#age.bad", r"no answer: these figures are \d+ s old")
        self.picture("gone")
        self.assertEqual(self.complaints(), [])
        host = self.url[len("http://"):].split("/", maxsplit=1)[0]
        for url in self.requests():
            # The browser's own first page is none of ours.
            self.assertRegex(url, rf"^(http://{re.escape(host)}/|data:|chrome:)")

    def test_tables_stand_in_the_order_of_their_lookups(self):
        self.browser.get(self.url)
        self.wait_for("#verdict", r"^trains: ")
        rows = self.browser.execute_script("""
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

    def test_a_text_is_never_markup(self):
        # What the page is given by a process that lies.
        self.browser.get(self.url)
        self.wait_for("#verdict", r"^trains: ")
        lie = "<img src=x onerror=alert(1)><script>alert(2)</script>"
        # At once: the page asks again and again.
        verdict, images, scripts = self.browser.execute_script(
            "show({...arguments[0], points: []});"
            "return [document.getElementById('verdict').innerText,"
            " document.images.length, document.scripts.length]", {
                "job": lie, "verdict": lie, "level": "BAD", "seen_by": lie,
                "build": lie, "incarnation": "1", "processes_left_out": 0,
                "figures": [{"name": lie, "value": lie, "note": lie,
                             "level": "BAD"}],
                "processes": [{"name": lie, "is_server": True, "state": lie,
                               "level": "BAD", "heard": lie, "generation": lie,
                               "host": lie, "address": lie, "figures": lie,
                               "waits": [lie]}],
                "tables": [{"variable": lie, "rows": 1, "capacity": 1,
                            "created": 1, "evicted": 0, "ignored": 0,
                            "looked_up": 0, "warning": lie}],
                "slices": [{"server": lie, "name": lie, "named_blocks": 1}],
                "events": [{"number": 1, "unix_seconds": 1, "text": lie,
                            "level": "BAD"}]})
        self.assertEqual((verdict, images, scripts), (lie, 0, 1))
        self.assertEqual(self.complaints(), [])


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
