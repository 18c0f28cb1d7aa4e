import { render } from "preact";
import { App } from "./app";
import "uplot/dist/uPlot.min.css";
import "./style.css";

const stored = localStorage.getItem("theme");
document.documentElement.dataset["theme"] =
  stored ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
const root = document.getElementById("app");
if (root) render(<App />, root);
