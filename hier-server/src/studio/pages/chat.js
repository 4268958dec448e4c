// Messages as a conversation: those of the state, and those that are being sent.

import { brief, eachFrame, h } from "./dom.js";

const SHOWN = 60; // messages at once; those before them on demand
const SPEAKERS = { human: "You", ai: "Model", tool: "Tool", system: "System" };

const isMessage = (item) => item && typeof item === "object" && item.type in SPEAKERS && "content" in item;
const isTalk = (value) => Array.isArray(value) && value.length > 0 && isMessage(value[0]) && isMessage(value.at(-1));

// Returns the channels with conversations, `messages` first.
export function talks(values) {
  const names = Object.keys(values ?? {}).filter((name) => isTalk(values[name]));
  return names.sort((a, b) => (b === "messages") - (a === "messages"));
}

export class Chat {
  constructor() {
    this.shown = SHOWN;
    this.channel = null;
    this.values = null;
    this.select = h("select", { "aria-label": "Channel", onchange: () => {
      this.channel = this.select.value;
      this.paint();
    } });
    this.said = h("div", { class: "said" });
    this.speaking = h("div", { class: "said speaking", "aria-live": "polite" });
    this.earlier = h("button", { class: "earlier", onclick: () => {
      this.shown += SHOWN * 2;
      this.paint();
    } });
    this.scroll = h("div", { class: "scroll", tabindex: 0, "aria-label": "Messages" }, this.earlier, this.said, this.speaking);
    this.element = h("div", { class: "chat" }, h("div", { class: "channels" }, this.select), this.scroll);
    this.draw = eachFrame((spoken) => this.speak(spoken));
  }

  open() {
    this.shown = SHOWN;
    this.values = null;
    this.paint();
    this.speaking.replaceChildren();
  }

  show(values) {
    this.values = values;
    this.paint();
  }

  atEnd(change) {
    const { scrollTop, scrollHeight, clientHeight } = this.scroll;
    const follows = scrollHeight - scrollTop - clientHeight < 40;
    change();
    if (follows) this.scroll.scrollTop = this.scroll.scrollHeight;
  }

  paint() {
    const names = talks(this.values);
    if (!names.includes(this.channel)) this.channel = names[0] ?? null;
    this.select.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
    if (this.channel) this.select.value = this.channel;
    this.select.parentElement.hidden = names.length < 2;
    const all = this.channel ? this.values[this.channel].filter(isMessage) : [];
    this.ids = new Set(all.map((message) => message.id).filter(Boolean));
    const results = new Map(all.filter((message) => message.type === "tool").map((message) => [message.tool_call_id, message]));
    const calls = new Set(all.flatMap((message) => (message.tool_calls ?? []).map((call) => call.id)));
    // The result of a call is shown next to it.
    const alone = all.filter((message) => message.type !== "tool" || !calls.has(message.tool_call_id));
    const hidden = Math.max(0, alone.length - this.shown);
    this.earlier.hidden = hidden === 0;
    this.earlier.textContent = `${hidden} earlier`;
    this.atEnd(() => {
      this.said.replaceChildren(...alone.slice(hidden).map((message) => said(message, results)));
      if (!all.length) this.said.append(h("p", { class: "empty" }, "No messages in this state."));
      this.speak(this.spoken);
    });
  }

  stream(spoken) {
    this.spoken = spoken;
    this.draw(spoken);
  }

  // The messages that are being sent, until the state contains them. Messages of subgraphs stay while the subgraphs run.
  speak(spoken) {
    const open = [...(spoken?.values() ?? [])].filter((speech) => !this.ids?.has(speech.id) && (!speech.message || speech.place.length));
    this.atEnd(() => {
      this.speaking.replaceChildren(...open.slice(-20).map((speech) => speech.message
        ? said(speech.message, new Map(), speech.agent)
        : said({
          type: "ai", content: speech.text, reasoning: speech.reasoning && [{ text: speech.reasoning }],
          tool_calls: speech.calls.map((call) => ({ ...call, args: call.args })),
        }, new Map(), speech.agent, true)));
    });
  }
}

function said(message, results, agent, isOpen = false) {
  const who = agent || message.name || SPEAKERS[message.type] || message.type;
  const { total_tokens: tokens, cost } = message.usage_metadata ?? {};
  return h("article", { class: `message ${message.type} ${isOpen ? "open" : ""}` },
    h("header", {}, h("span", { class: "who" }, who), tokens > 0 && h("span", { class: "tokens" }, `${tokens} tokens${dollars(cost)}`)),
    thoughts(message),
    content(message.content),
    sources(message),
    (message.tool_calls ?? []).map((call) => called(call, results.get(call.id))));
}

// The cost is an exact decimal text. Three digits are enough to compare answers.
function dollars(cost) {
  const amount = Number(cost ?? NaN);
  if (Number.isNaN(amount)) return "";
  const places = amount === 0 || amount >= 1 ? 2 : Math.max(2, 2 - Math.floor(Math.log10(amount)));
  return ` · $${amount.toFixed(Math.min(places, 12))}`;
}

function thoughts(message) {
  const parts = Array.isArray(message.reasoning) ? message.reasoning.map((part) => part.text ?? "") : [];
  const more = message.additional_kwargs?.reasoning_content;
  const text = [...parts, typeof more === "string" ? more : ""].filter(Boolean).join("\n\n");
  if (!text) return null;
  return h("details", { class: "reasoning" }, h("summary", {}, "Reasoning"), h("div", { class: "text" }, text));
}

// The sources of an answer: each once, with the passages that it supports.
function sources(message) {
  if (!Array.isArray(message.citations) || !message.citations.length) return null;
  const bytes = new TextEncoder().encode(textOf(message.content));
  const groups = new Map();
  for (const citation of message.citations) {
    const key = citation.url ?? citation.file_id ?? citation.title ?? citation.cited_text;
    if (!groups.has(key)) groups.set(key, { ...citation, passages: [] });
    const passage = new TextDecoder().decode(bytes.slice(citation.start, citation.end));
    if (passage) groups.get(key).passages.push(passage);
  }
  return h("details", { class: "sources" }, h("summary", {}, groups.size === 1 ? "1 source" : `${groups.size} sources`),
    h("ol", {}, [...groups.values()].map((source) => h("li", {}, link(source),
      source.cited_text && h("blockquote", {}, brief(source.cited_text, 400)),
      source.passages.map((passage) => h("div", { class: "passage" }, brief(passage, 200)))))));
}

// Links only to web pages: an address from a model may be a script.
function link({ url, title, file_id: file }) {
  const name = title || url || file || "Source";
  if (typeof url !== "string" || !/^https?:\/\//.test(url)) return h("span", {}, name);
  return h("a", { href: url, rel: "noopener noreferrer", target: "_blank" }, name);
}

function textOf(content) {
  if (!Array.isArray(content)) return String(content ?? "");
  return content.map((part) => (typeof part === "string" ? part : part.text ?? "")).join("");
}

function content(value) {
  const parts = Array.isArray(value) ? value : [{ type: "text", text: String(value ?? "") }];
  return parts.map((part) => {
    if (typeof part === "string") return h("div", { class: "text" }, part);
    if (typeof part.text === "string") return part.text ? h("div", { class: "text" }, part.text) : null;
    const url = part.image_url?.url ?? part.url;
    // Shows only data in the message itself, without requests to other hosts.
    if (typeof url === "string" && /^data:image\/(png|jpeg|gif|webp);/.test(url)) return h("img", { src: url, alt: "an image of the message" });
    return h("div", { class: "text faint" }, brief(JSON.stringify(part), 400));
  });
}

function called(call, result) {
  const args = typeof call.args === "string" ? call.args : JSON.stringify(call.args, null, 2);
  const text = result && (typeof result.content === "string" ? result.content : JSON.stringify(result.content, null, 2));
  const state = result ? (result.status === "error" ? "failed" : "done") : "running";
  return h("details", { class: `call ${state}` },
    h("summary", {}, h("span", { class: "tool" }, call.name), h("span", { class: "preview" }, brief(result ? text : args, 80))),
    h("pre", {}, args),
    result && h("pre", { class: "result" }, brief(text, 100000)));
}
