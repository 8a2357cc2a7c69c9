// Puts the page together: one picture, its detections, and what is shown of both.

import { Camera } from "./camera.js";
import { detect, getJson } from "./detect.js";
import { fetchSample, offerSamples, takeDrops, takeFiles, takePastes } from "./intake.js";
import { readPicture, readableSize } from "./picture.js";
import { Problem } from "./problem.js";
import { clearReadout, describe, introduce, note, say, showFigures, showProblem } from "./readout.js";
import { copyJson, savePicture } from "./save.js";
import { Stage } from "./stage.js";
import { Table } from "./table.js";

const byId = (id) => document.getElementById(id);
const stage = new Stage(byId("stage"), byId("canvas"), highlight);
const table = new Table(byId("table"), byId("rows"), highlight);
const camera = new Camera(detectFrame, closeCamera);

let maxBytes = Infinity; // until the server has told its limit
let shown = null; // {name, result} of the picture on the stage
let pending = new AbortController(); // of the request under way; a new picture ends it

function start() {
  takeFiles(byId("file"), byId("choose"), open);
  takeDrops(byId("stage"), open);
  takePastes(open);
  byId("camera").addEventListener("click", () => (camera.running ? camera.stop() : openCamera()));
  byId("threshold").addEventListener("input", render);
  byId("copy").addEventListener("click", () => finish(copy()));
  byId("save").addEventListener("click", () => finish(save()));
  getJson("labels").then(learn).catch(fail);
  offerSamples(byId("samples"), byId("sample-list"), (name) => open(null, name)).catch(fail);
}

function learn(about) {
  maxBytes = about.max_bytes;
  introduce(about);
}

// file: a Blob, or null for the sample of this name.
async function open(file, name) {
  const { signal } = supersede();
  clear();
  stage.busy = true;
  try {
    const blob = file ?? (await fetchSample(name));
    if (!blob) throw new Problem("This sample is gone", `${name} cannot be read any more.`);
    const picture = await readPicture(blob, name, maxBytes);
    if (signal.aborted) return;
    stage.showPicture(picture);
    note(picture.note);
    const { result, requestMs } = await detect(picture.jpeg, name, signal);
    show(picture, name, result, requestMs, ["Sent", readableSize(picture.jpeg.size)]);
  } catch (error) {
    if (!signal.aborted) fail(error);
  } finally {
    if (!signal.aborted) stage.busy = false;
  }
}

async function openCamera() {
  supersede();
  clear();
  showCameraRuns(true);
  say("Waiting for the camera");
  await camera.run();
}

async function detectFrame(frame) {
  const { result, requestMs } = await detect(frame.jpeg, "camera", pending.signal);
  if (!camera.running) return;
  stage.showPicture(frame);
  const rate = Number.isFinite(frame.framesPerSecond) ? frame.framesPerSecond.toFixed(1) : "–";
  show(frame, "camera", result, requestMs, ["Frames per second", rate]);
}

function closeCamera(error) {
  showCameraRuns(false);
  if (error) fail(error);
  else if (!shown) clear();
}

function showCameraRuns(runs) {
  byId("camera").textContent = runs ? "Stop the camera" : "Open the camera";
  byId("camera").setAttribute("aria-pressed", runs);
  // Words for every frame would drown a screen reader.
  byId("summary").setAttribute("aria-live", runs ? "off" : "polite");
}

// Ends what is under way; returns the controller of what comes now.
function supersede() {
  camera.stop();
  pending.abort();
  pending = new AbortController();
  return pending;
}

function show(picture, name, result, requestMs, rate) {
  shown = { name, result };
  showFigures(picture, result.latency_ms, requestMs, rate);
  render();
}

function visible() {
  const least = byId("threshold").valueAsNumber;
  return shown ? shown.result.detections.filter(({ score }) => score >= least) : [];
}

// Shows the detections that the slider lets through.
function render() {
  byId("threshold-value").textContent = byId("threshold").valueAsNumber.toFixed(2);
  const detections = visible();
  const colors = shown?.result.colors ?? {};
  const text = shown ? describe(detections, shown.result.detections.length) : "";
  table.show(detections, colors);
  stage.showDetections(detections, colors, shown ? `${shown.name}: ${text}` : "No picture yet");
  for (const id of ["copy", "save"]) byId(id).disabled = !shown;
  if (shown) say(text);
}

function highlight(detection) {
  stage.highlight(detection);
  table.highlight(detection);
}

function clear() {
  shown = null;
  stage.showPicture({ image: null });
  stage.busy = false;
  clearReadout();
  byId("done").textContent = "";
  render();
}

function fail(error) {
  showProblem(error);
  stage.state = "problem";
}

async function copy() {
  await copyJson(shown.result, visible());
  return "Copied";
}

async function save() {
  return `Saved as ${await savePicture(stage.inFullSize(), shown.name)}`;
}

function finish(work) {
  const tell = (text) => (byId("done").textContent = text);
  work.then(tell, (error) => tell(error.title ? `${error.title}. ${error.message}` : `${error}`));
}

start();
