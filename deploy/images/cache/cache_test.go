package cache

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestKeyDistinguishesParts(t *testing.T) {
	require.Len(t, Key("a"), 12)
	require.Equal(t, Key("a", "b"), Key("a", "b"))
	require.NotEqual(t, Key("a", "b"), Key("ab"))
	require.NotEqual(t, Key("a", "b"), Key("b", "a"))
}

func TestFailedBuildsLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("broken")
	require.ErrorIs(t, File(filepath.Join(dir, "file"), func(w io.Writer) error { return broken }), broken)
	require.ErrorIs(t, Folder(filepath.Join(dir, "folder"), func(string) error { return broken }), broken)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestFinishedThingsAreNotMadeAgain(t *testing.T) {
	name := filepath.Join(t.TempDir(), "images", "file")
	made := 0
	for range 2 {
		require.NoError(t, File(name, func(w io.Writer) error {
			made++
			_, err := io.WriteString(w, "content")
			return err
		}))
	}
	require.Equal(t, 1, made)
}

func TestSweepRemovesOldRestsOnly(t *testing.T) {
	dir := t.TempDir()
	old, young := filepath.Join(dir, ".tmp-old"), filepath.Join(dir, ".tmp-young")
	require.NoError(t, os.Mkdir(old, 0o700))
	require.NoError(t, os.Mkdir(young, 0o700))
	past := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(old, past, past))
	require.NoError(t, Sweep(dir, time.Hour))
	require.NoDirExists(t, old)
	require.DirExists(t, young)
}
