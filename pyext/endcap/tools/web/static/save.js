// Takes results out of the page: JSON to the clipboard, a picture to the disk.

import { toJpeg } from "./jpeg.js";
import { Problem } from "./problem.js";

const SAVED_QUALITY = 0.92;

// Members as `endcap infer --json` prints them; detections: those that are shown.
export async function copyJson(result, detections) {
  const { image, status } = result;
  const text = JSON.stringify({ image, status, detections }, null, 2);
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    throw new Problem("The browser did not allow the clipboard", "Allow it, then copy again.");
  }
}

export async function savePicture(canvas, name) {
  const url = URL.createObjectURL(await toJpeg(canvas, SAVED_QUALITY));
  const download = `${name.replace(/\.[^.]*$/, "")}_detections.jpg`;
  Object.assign(document.createElement("a"), { href: url, download }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // the download reads it after the click
  return download;
}
