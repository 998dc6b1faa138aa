// Chats and settings, kept in the browser.
"use strict";

const store = {
  read(name, other) {
    try {
      return JSON.parse(localStorage.getItem("tern." + name)) ?? other;
    } catch {
      return other;
    }
  },
  // write returns whether there was room.
  write(name, value) {
    try {
      localStorage.setItem("tern." + name, JSON.stringify(value));
      return true;
    } catch {
      return false;
    }
  },
};

// A chat is {id, title, messages}; a message {role, content, reasoning, foot, error}.
const chats = {
  list: store.read("chats", []),
  now: null,
  save() {
    this.list = this.list.filter((c) => c.messages.length > 0);
    while (!store.write("chats", this.list) && this.list.length > 1) this.list.pop(); // the oldest
    store.write("now", this.now?.id);
  },
  begin() {
    this.now = { id: crypto.randomUUID?.() ?? String(Math.random()), title: "New chat", messages: [] };
    return this.now;
  },
  // touch puts a chat first.
  touch(chat) {
    this.list = [chat, ...this.list.filter((c) => c !== chat)];
    this.save();
  },
  remove(chat) {
    this.list = this.list.filter((c) => c !== chat);
    if (chat === this.now) this.begin();
    this.save();
  },
};

const settings = store.read("settings", {});
