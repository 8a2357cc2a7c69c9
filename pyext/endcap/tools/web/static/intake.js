// The ways in which a picture gets to the page: a file that is chosen, dropped or pasted, a sample.

import { getJson } from "./detect.js";

export function takeFiles(input, button, onFile) {
  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    const [file] = input.files;
    if (file) onFile(file, file.name);
    input.value = ""; // so that the same file can be chosen again
  });
}

// The whole page takes a dropped file: one that misses the frame must not replace the page.
export function takeDrops(frame, onFile) {
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
    const [file] = event.dataTransfer.files;
    if (file) onFile(file, file.name);
  });
}

export function takePastes(onFile) {
  window.addEventListener("paste", (event) => {
    const [file] = event.clipboardData.files;
    if (file) onFile(file, file.name || "pasted");
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
