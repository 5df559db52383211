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

func TestEnsureMakesTablesOnceAndKeepsWhatIsInThem(t *testing.T) {
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

// TestIndexesOfVisibility: those for what is looked for are made, and no others, in a file that says it has the
// server's tables.
func TestIndexesOfVisibility(t *testing.T) {
	path := filepath.Join(t.TempDir(), "visibility.db")
	require.NoError(t, Ensure(t.Context(), path))
	rows, err := open(t, path).Query("SELECT name FROM sqlite_master " +
		"WHERE type = 'index' AND tbl_name = 'executions_visibility' AND sql IS NOT NULL ORDER BY name")
	require.NoError(t, err)
	var names []string
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		names = append(names, name)
	}
	require.NoError(t, rows.Err())
	require.Equal(t, []string{
		"by_keyword_01", "by_keyword_02", "by_keyword_03", "by_keyword_04", "by_keyword_05", "by_keyword_06",
		"by_keyword_07", "by_keyword_08", "by_keyword_09", "by_keyword_10", "by_status", "by_workflow_id",
		"by_workflow_type", "default_idx",
	}, names)
}
