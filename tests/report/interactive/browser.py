"""What tests do with a page in a browser."""

from __future__ import annotations

import base64
import json
import shutil

ERRORS = ("SEVERE", "WARNING")

MOUSE = (
    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"
)
"""Without it a browser that has no window has no mouse either, and shows what else appears under one."""


def find_programs():
    """Return the paths of the system's browser and its driver, or None if one of them is missing."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def start_driver(programs):
    """Start the browser without a window."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    words = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", MOUSE)
    for word in words:
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(programs[1]))


class Browser:
    """A page as a person sees and uses it."""

    def __init__(self, driver, page):
        self.driver, self.page = driver, page

    def open(self, fragment="", width=1280, height=900, scheme="light"):
        """Open the page afresh."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)  # what came before
        self.driver.get(f"{self.page.as_uri()}#{fragment}")
        return self

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def texts(self, selector):
        """Return the texts of all elements that are shown."""
        return self.run(
            "return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility())"
            ".map(e => e.innerText)",
            selector,
        )

    def choose(self, name, value, section="curves"):
        """Choose an option as a click does."""
        from selenium.webdriver.support.select import Select

        Select(self.find(f'#{section} [data-choice="{name}"]')).select_by_value(value)

    def toggle(self, algorithm):
        self.find(f'#algorithms input[value="{algorithm}"]').click()

    def hover(self, name, place):
        """Move the mouse to a point of a curve, and return what appears."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.support.wait import WebDriverWait

        x, y = (values[place] for values in self.lines()[name])
        right, down = self.run(
            "const {xaxis, yaxis} = document.getElementById('chart')._fullLayout;"
            "const fromMiddle = (axis, value) => axis.d2p(value) - axis._length / 2;"
            "return [fromMiddle(xaxis, arguments[0]), fromMiddle(yaxis, arguments[1])]",
            *(x, y),
        )
        plot = self.find("#chart .nsewdrag")
        self.run("document.getElementById('chart').scrollIntoView({block: 'center'})")
        ActionChains(self.driver).move_to_element_with_offset(plot, round(right), round(down)).perform()
        return WebDriverWait(self.driver, 5).until(lambda _: self.find("#chart .hoverlayer").text)

    def lines(self):
        """Return the drawn curves: numbers by the names that hovering shows."""
        drawn = self.run(
            "return document.getElementById('chart').data.filter(t => t.mode === 'lines' && t.name)"
            ".map(t => [t.name, t.x, t.y])"
        )
        return {name: (x, y) for name, x, y in drawn}

    def maps(self):
        """Return the drawn maps: the numbers that hovering shows, by quantity, panel by panel."""
        drawn = self.run(
            "return document.getElementById('map').data.map(t => [t.name, t.customdata, t.z, t.text])"
        )
        found = {}
        for name, *numbers in drawn:
            found.setdefault(name, []).append(numbers)
        return found

    def num_shapes(self):
        """Count what is drawn, in the picture itself."""
        return len(self.driver.find_elements("css selector", "#chart .scatterlayer .trace"))

    def fragment(self):
        return self.run("return location.hash.slice(1)")

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ERRORS]

    def requests(self):
        """Return the addresses that were asked for."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]

    def picture(self, path):
        found = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        path.write_bytes(base64.b64decode(found["data"]))
        return path
