// From a file to what is sent and what is shown.

import { toJpeg } from "./jpeg.js";
import { Problem } from "./problem.js";

const CONVERTED_QUALITY = 0.95;

// Returns {jpeg, image, width, height, note}: jpeg is the file itself where it is a JPEG; image is
// null where the browser cannot show it, which is for the server to explain.
export async function readPicture(file, name, maxBytes) {
  const isJpeg = file.type === "image/jpeg" || (await startsLikeJpeg(file));
  const image = await decode(file);
  if (!image && !isJpeg) {
    throw new Problem(
      "The browser cannot read this picture",
      `${name} is none of the formats that it knows; choose a JPEG, PNG or WebP file.`,
    );
  }
  const jpeg = isJpeg ? file : await convert(image);
  if (jpeg.size > maxBytes) {
    throw new Problem(
      "This picture is too large",
      `It has ${readableSize(jpeg.size)}; ${readableSize(maxBytes)} are allowed.`,
    );
  }
  const note = isJpeg
    ? ""
    : `The server takes JPEG: the browser converted ${name} (${formatOf(file)}, ` +
      `${readableSize(file.size)}) with quality ${CONVERTED_QUALITY}.`;
  return { jpeg, image, width: image?.naturalWidth, height: image?.naturalHeight, note };
}

export function readableSize(bytes) {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

async function startsLikeJpeg(file) {
  const [first, second] = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  return first === 0xff && second === 0xd8;
}

// An <img> is shown with its EXIF orientation applied, as the server does it.
async function decode(file) {
  const image = new Image();
  image.src = URL.createObjectURL(file);
  try {
    await image.decode();
    return image.naturalWidth > 0 ? image : null;
  } catch {
    return null;
  } finally {
    URL.revokeObjectURL(image.src);
  }
}

function convert(image) {
  const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight);
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff"; // JPEG has no transparency
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0);
  return toJpeg(canvas, CONVERTED_QUALITY);
}

function formatOf(file) {
  return file.type.replace(/^image\//, "").replace(/\+.*$/, "").toUpperCase() || "no JPEG";
}
