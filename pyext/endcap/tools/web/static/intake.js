// The ways in which files get to the page: chosen, dropped or pasted; and samples.

import { getJson } from "./detect.js";

// onFiles: called with one or more files.
export function takeFiles(input, button, onFiles) {
  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    const files = [...input.files];
    if (files.length > 0) onFiles(files);
    input.value = ""; // so that the same file can be chosen again
  });
}

// The whole page takes a dropped file: one that misses the frame must not replace the page.
export function takeDrops(frame, onFiles) {
  let depth = 0; // enter and leave come for every element under the pointer
  const mark = (change) => {
    depth = Math.max(0, depth + change);
    frame.toggleAttribute("data-drop", depth > 0);
  };
  const isFile = (event) => event.dataTransfer.types.includes("Files");
  window.addEventListener("dragenter", (event) => isFile(event) && mark(1));
  window.addEventListener("dragleave", (event) => isFile(event) && mark(-1));
  window.addEventListener("dragover", (event) => event.preventDefault());
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    mark(-depth);
    const files = [...event.dataTransfer.files];
    if (files.length > 0) onFiles(files);
  });
}

export function takePastes(onFiles) {
  window.addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files];
    if (files.length > 0) onFiles(files);
  });
}

// onOpen: called with a sample's name when it is clicked; fetchSample then gets its file.
export async function offerSamples(section, list, onOpen) {
  const names = await getJson("samples");
  list.replaceChildren(...names.map((name) => sampleItem(name, () => onOpen(name))));
  section.hidden = names.length === 0;
}

export async function fetchSample(name) {
  const response = await fetch(sampleUrl(name));
  return response.ok ? response.blob() : null;
}

function sampleItem(name, onClick) {
  const item = document.createElement("li");
  const button = Object.assign(document.createElement("button"), { type: "button", title: name });
  const image = Object.assign(document.createElement("img"), {
    alt: name,
    loading: "lazy",
    decoding: "async",
    src: sampleUrl(name),
  });
  button.append(image);
  button.addEventListener("click", onClick);
  item.append(button);
  return item;
}

function sampleUrl(name) {
  return `samples/${encodeURIComponent(name)}`;
}
