// Puts the page together: a picture or a frame, its detections, and what is shown of both.

import { Camera } from "./camera.js";
import { detect, getJson } from "./detect.js";
import { fetchSample, offerSamples, takeDrops, takeFiles, takePastes } from "./intake.js";
import { readPicture, readableSize } from "./picture.js";
import { Player } from "./player.js";
import { Problem } from "./problem.js";
import {
  clearReadout, describe, introduce, note, say, showFigures, showProblem, showTracking,
} from "./readout.js";
import { copyJson, savePicture } from "./save.js";
import { Stage } from "./stage.js";
import { Table } from "./table.js";
import { Tracking } from "./tracking.js";
import { VideoFile, isVideo } from "./video_file.js";

const byId = (id) => document.getElementById(id);
const stage = new Stage(byId("stage"), byId("canvas"), highlight);
const table = new Table(byId("table"), byId("rows"), highlight);
const player = new Player(trackFrame, endPlaying);
const NO_COLORS = { classes: {}, tracks: {} };
const NAME_ORDER = new Intl.Collator("en", { numeric: true });

let maxBytes = Infinity; // until the server has told its limit
let shown = null; // {name, result} of the picture on the stage
let tracking = null; // of the sequence that is shown, null for a single picture
let playing = ""; // the name of the video or camera that plays
let pending = new AbortController(); // of the request under way; a new picture ends it

function start() {
  takeFiles(byId("file"), byId("choose"), openFiles);
  takeDrops(byId("stage"), openFiles);
  takePastes(openFiles);
  byId("camera").addEventListener("click", () => (canStop() ? stop() : openCamera()));
  window.addEventListener("pagehide", () => tracking?.end());
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

function openFiles(files) {
  const videos = files.filter(isVideo);
  if (files.length === 1) {
    const [file] = files;
    if (videos.length === 1) play(new VideoFile(file), file.name, "Stop the video");
    else open(file, file.name || "pasted");
  } else if (videos.length === 0) {
    openPictures(files.sort((a, b) => NAME_ORDER.compare(a.name, b.name)));
  } else {
    supersede();
    clear();
    fail(new Problem("Only one video at a time", "Choose one, or several pictures."));
  }
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

// Shows pictures one after the other, as frames of one sequence.
async function openPictures(files) {
  const { signal } = supersede();
  clear();
  const sequence = (tracking = new Tracking());
  showRuns("Stop");
  const failed = [];
  try {
    for (const [position, file] of files.entries()) {
      try {
        const picture = await readPicture(file, file.name, maxBytes);
        const { result, requestMs } = await sequence.track(picture.jpeg, file.name, signal);
        stage.showPicture(picture);
        show(picture, file.name, result, requestMs, ["Picture", `${position + 1} of ${files.length}`]);
        showTracking(sequence.count, 0);
      } catch (error) {
        const isOfOne = error instanceof Problem && (error.status ?? 422) === 422;
        if (signal.aborted || !isOfOne) throw error;
        failed.push(file.name);
        if (failed.length === files.length) throw error;
        note(`Left out, since they cannot be read: ${failed.join(", ")}`);
      }
    }
  } catch (error) {
    if (!signal.aborted) fail(error);
  } finally {
    sequence.end();
    if (!signal.aborted) showRuns(null);
  }
}

function openCamera() {
  play(new Camera(), "camera", "Stop the camera");
}

async function play(source, name, stopText) {
  supersede();
  clear();
  playing = name;
  tracking = new Tracking();
  showRuns(stopText);
  say(`Waiting for ${name === "camera" ? "the camera" : name}`);
  await player.run(source);
}

async function trackFrame(frame) {
  const sequence = tracking;
  const { result, requestMs } = await sequence.track(frame.jpeg, playing, pending.signal);
  if (!player.running || tracking !== sequence) return;
  stage.showPicture(frame);
  const rate = Number.isFinite(frame.framesPerSecond) ? frame.framesPerSecond.toFixed(1) : "–";
  show(frame, playing, result, requestMs, ["Frames per second", rate]);
  showTracking(sequence.count, frame.dropped);
}

function endPlaying(error) {
  tracking?.end();
  showRuns(null);
  if (error) fail(error);
  else if (!shown) clear();
}

// stopText: what the button says that ends it, null where nothing runs.
function showRuns(stopText) {
  const runs = stopText !== null;
  byId("camera").textContent = stopText ?? "Open the camera";
  byId("camera").setAttribute("aria-pressed", runs);
  // Words for every frame would drown a screen reader.
  byId("summary").setAttribute("aria-live", runs ? "off" : "polite");
}

function canStop() {
  return byId("camera").getAttribute("aria-pressed") === "true";
}

function stop() {
  supersede();
  if (!shown) clear();
}

// Ends what is under way; returns the controller of what comes now.
function supersede() {
  pending.abort(); // before the sequence ends, or the server would find none for its last frame
  player.stop();
  showRuns(null);
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
  const colors = shown
    ? { classes: shown.result.colors, tracks: tracking?.colors ?? {} }
    : NO_COLORS;
  const text = shown ? describe(detections, shown.result.detections.length) : "";
  table.show(detections, colors, tracking !== null);
  const all = shown?.result.detections ?? [];
  const trails = tracking?.trails(all.filter((each) => !detections.includes(each))) ?? [];
  const description = shown ? `${shown.name}: ${text}` : "No picture yet";
  stage.showDetections(detections, trails, colors, description);
  for (const id of ["copy", "save"]) byId(id).disabled = !shown;
  if (shown) say(text);
}

function highlight(detection) {
  stage.highlight(detection);
  table.highlight(detection);
}

function clear() {
  shown = null;
  tracking = null;
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
