package schema

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func open(t *testing.T, path string) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func TestEnsureMakesTheTablesOnceAndKeepsWhatIsInThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "temporal.db")
	require.NoError(t, Ensure(t.Context(), path))
	db := open(t, path)
	_, err := db.Exec("INSERT INTO cluster_metadata_info (metadata_partition, cluster_name, data, data_encoding, " +
		"version) VALUES (0, 'kept', '', '', 1)")
	require.NoError(t, err)
	require.NoError(t, Ensure(t.Context(), path))
	var name string
	require.NoError(t, db.QueryRow("SELECT cluster_name FROM cluster_metadata_info").Scan(&name))
	require.Equal(t, "kept", name)
}

func TestEnsureRefusesAnotherVersionsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "temporal.db")
	require.NoError(t, Ensure(t.Context(), path))
	_, err := open(t, path).Exec("PRAGMA user_version = 7")
	require.NoError(t, err)
	require.ErrorIs(t, Ensure(t.Context(), path), ErrOtherVersion)
}

func TestEnsureInterruptedLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "temporal.db")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, Ensure(ctx, path))
	require.NoError(t, Ensure(t.Context(), path))
}
