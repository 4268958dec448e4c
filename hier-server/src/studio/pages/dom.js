// Elements from data. Text only becomes text nodes: stored values are never read as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

// Calls at most once per frame, with the last arguments.
export function eachFrame(call) {
  let waits = false;
  let last = [];
  return (...given) => {
    last = given;
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => {
      waits = false;
      call(...last);
    });
  };
}

// Calls once there were no new arguments for a while.
export function settled(call, milliseconds) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(call, milliseconds, ...given);
  };
}

// Calls at once, then again after each pause while requested. Slow calls have longer pauses.
export function paced(call, milliseconds) {
  let isOn = false;
  let again = false;
  const ask = async () => {
    again = true;
    if (isOn) return;
    isOn = true;
    while (again) {
      again = false;
      const begun = performance.now();
      await call();
      const took = performance.now() - begun;
      await new Promise((resolve) => setTimeout(resolve, Math.max(milliseconds, 3 * took)));
    }
    isOn = false;
  };
  return ask;
}

export function brief(text, letters) {
  return text.length > letters ? `${text.slice(0, letters)}…` : text;
}

export function duration(milliseconds) {
  if (milliseconds < 1) return "<1 ms";
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${Math.floor(milliseconds / 60000)} min ${Math.round((milliseconds % 60000) / 1000)} s`;
}

export function moment(text) {
  if (!text) return "";
  const time = new Date(text);
  const today = new Date().toDateString() === time.toDateString();
  return today ? time.toLocaleTimeString() : time.toLocaleString([], { dateStyle: "short", timeStyle: "short" });
}

export const shortId = (id) => (/^[0-9a-f]{8}-/.test(id) ? `…${id.slice(-8)}` : id);

// Shows a notice for a while, or an error until the next notice.
let line = null;
export function say(text, isError = false) {
  line ??= document.body.appendChild(h("div", { class: "toast", role: "status" }));
  line.textContent = text;
  line.classList.toggle("bad", isError);
  line.classList.add("shown");
  clearTimeout(line.timer);
  line.timer = setTimeout(() => line.classList.remove("shown"), isError ? 12000 : 4000);
}

// Runs the action of a button, and shows its error.
export async function attempt(call) {
  try {
    return await call();
  } catch (error) {
    if (error.name !== "AbortError") say(error.message, true);
    return undefined;
  }
}

// A dialog with a form. Resolves to the result of `read`, or to undefined if it is closed.
export function dialog(title, body, { ok = "OK", read = () => true, danger = false } = {}) {
  return new Promise((resolve) => {
    let result;
    const wrong = h("p", { class: "wrong", role: "alert" });
    const submit = (event) => {
      event.preventDefault();
      try {
        result = read();
      } catch (error) {
        wrong.textContent = error.message;
        return;
      }
      element.close();
    };
    const element = h("dialog", { "aria-label": title },
      h("form", { onsubmit: submit },
        h("h2", {}, title),
        body,
        wrong,
        h("div", { class: "buttons" },
          h("button", { type: "button", onclick: () => element.close() }, ok ? "Cancel" : "Close"),
          ok && h("button", { type: "submit", class: danger ? "danger" : "primary" }, ok))));
    element.addEventListener("close", () => {
      element.remove();
      resolve(result);
    });
    document.body.append(element);
    element.showModal();
  });
}
