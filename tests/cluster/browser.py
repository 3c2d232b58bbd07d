"""Chromium without a screen, in which tests and benchmarks open the status page."""

import base64
import json
import os
import re
import shutil
import tempfile
import time
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    webdriver = None

# (width, height, whether it is a phone)
DESKTOP = (1200, 1400, False)
PHONE = (390, 844, True)

# Before the first script of each page: keeps what its policy forbids.
_WATCH = """
  window.violations = [];
  document.addEventListener("securitypolicyviolation", (event) =>
      violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""


def is_installed():
    return webdriver is not None and bool(shutil.which("chromedriver"))


def need_browser():
    """Skips the tests of a module where there is none."""
    if not is_installed():
        raise unittest.SkipTest(
            "needs Debian's chromium-driver and python3-selenium")


class Browser:
    """One browser with a profile of its own; some of its windows are pages."""

    def __init__(self, watch=""):
        """`watch`: a script that runs before those of each page that is opened in
        the first window."""
        options = webdriver.ChromeOptions()
        for argument in (
                "--headless=new", "--no-sandbox", "--disable-gpu",
                "--disable-dev-shm-usage", "--no-first-run",
                "--disable-backgrounding-occluded-windows",
                "--user-data-dir=" + tempfile.mkdtemp(
                    dir=os.environ["TEST_TMPDIR"])):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs",
                               {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(
            options=options, service=Service(shutil.which("chromedriver")))
        self._call("Page.addScriptToEvaluateOnNewDocument",
                   source=_WATCH + watch)

    def close(self):
        self.driver.quit()

    def _call(self, method, **parameters):
        return self.driver.execute_cdp_cmd(method, parameters)

    def open(self, url):
        """Forgets what was logged before."""
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(url)

    def run(self, script, *arguments):
        """What `script` returns; it sees `arguments`."""
        return self.driver.execute_script(script, *arguments)

    def screen(self, size, dark=False):
        width, height, is_phone = size
        self._call("Emulation.setDeviceMetricsOverride", width=width,
                   height=height, mobile=is_phone,
                   deviceScaleFactor=2 if is_phone else 1)
        self._call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme",
             "value": "dark" if dark else "light"}])

    def without_scripts(self, disabled):
        self._call("Emulation.setScriptExecutionDisabled", value=disabled)

    def hide(self):
        """Nobody sees the page any more."""
        self.driver.minimize_window()

    def show(self):
        self.driver.set_window_rect(0, 0, 1200, 1400)

    def text(self, selector):
        """All at once: the page draws anew meanwhile."""
        return self.run(
            "return [...document.querySelectorAll(arguments[0])]"
            ".map((found) => found.innerText ?? found.textContent)"
            ".join('\\n')", selector)

    def wait_for(self, selector, pattern):
        """Until what is there says so; a test's own limit ends it else, after it
        was said what is there."""
        silent_until = time.monotonic() + 20
        while not re.search(pattern, text := self.text(selector)):
            if time.monotonic() > silent_until:
                silent_until = float("inf")
                print(f"waits for {pattern!r} in {selector!r}, which says "
                      f"{text!r}", flush=True)
            time.sleep(0.05)

    def picture(self, name):
        """A screenshot that Bazel keeps, of the page in its whole length."""
        folder = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")
        if folder:
            taken = self._call("Page.captureScreenshot",
                               captureBeyondViewport=True)["data"]
            with open(os.path.join(folder, f"{name}.png"), "wb") as file:
                file.write(base64.b64decode(taken))

    def messages(self):
        """What the console said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def violations(self):
        """What the page's policy has stopped."""
        return self.run("return window.violations")

    def requests(self):
        """URLs that were asked for since the last call."""
        urls = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.append(message["params"]["request"]["url"])
        return urls
