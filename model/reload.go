package model

import (
	"context"
	"fmt"

	"github.com/ternvk/tern/runtime/graph"
)

// Unload frees what the model takes on its executor, and keeps the file, the
// tokenizer and the tokens of its sessions. Until [Model.Reload] they fail with
// ErrUnloaded; after it they go on where they were, and evaluate their tokens
// again with the next ones. Unloading again does nothing.
func (m *Model) Unload() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unload()
}

func (m *Model) unload() {
	m.free()
	for s := range m.sessions {
		s.pages, s.states, s.done = nil, states{}, 0
	}
}

// Loaded reports whether the model is on its executor.
func (m *Model) Loaded() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.weights != nil
}

// Reload puts the model on x, or with nil on the executor that it was on: after
// Unload, on another executor after the first one was lost, or where it is when
// other programs have pushed it out of the card's memory, which shows as a speed that stays
// low. Its errors are those of Open; after one the model is unloaded.
func (m *Model) Reload(ctx context.Context, x graph.Executor) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("%s: reload: %w", m.file.Name, graph.ErrClosed)
	}
	m.unload()
	if x == nil {
		x = m.x
	}
	return m.upload(ctx, x)
}
