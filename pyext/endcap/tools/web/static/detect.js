// A request to the server: an encoded image, and the detections of its response.

import { Problem, asSentence } from "./problem.js";

const TITLES = {
  corrupt_image: "This picture is damaged, or no JPEG",
  image_limit: "This picture is larger than the server allows",
  unsupported: "The server cannot read this kind of JPEG",
  unavailable: "The Triton server does not respond",
  timeout: "The Triton server took too long",
};

// jpeg: a Blob, sent byte for byte. Returns the server's result and the milliseconds to it.
export async function detect(jpeg, name, signal, path = "detect") {
  const body = await jpeg.arrayBuffer();
  const begin = performance.now();
  const response = await send(`${path}?name=${encodeURIComponent(name)}`, {
    method: "POST",
    body,
    headers: { "Content-Type": "application/octet-stream" },
    signal,
  });
  const result = await response.json().catch((error) => {
    if (signal.aborted) throw error;
    return {};
  });
  const requestMs = performance.now() - begin;
  if (!response.ok) {
    throw new Problem(
      TITLES[result.status] ?? "The server could not process this picture",
      asSentence(result.error ?? `It responded with ${response.status} ${response.statusText}`),
      response.status,
    );
  }
  return { result, requestMs };
}

export async function getJson(path) {
  const response = await send(path, {});
  if (!response.ok) throw new Problem("The server of this page failed", `It has no ${path}.`);
  return response.json();
}

export async function send(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Problem(
      "The server of this page does not respond",
      "It was stopped, or the connection is gone: start it again, then reload this page.",
    );
  }
}
