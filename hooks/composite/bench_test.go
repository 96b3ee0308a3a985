package composite

import (
	"encoding/json"
	"testing"
)

// BenchmarkDecodeSync shows that time and memory grow in line with the size,
// and what of it any decoder has to pay: checking that it is JSON.
func BenchmarkDecodeSync(b *testing.B) {
	for _, size := range []struct {
		name                        string
		snapshots, snapshot, fields int
	}{
		{"5KB", 1, 100, 0},
		{"30KB", 4, 1500, 1500},
		{"300KB", 10, 10 << 10, 7 << 10},
		{"8MB", 50, 60 << 10, 35 << 10},
	} {
		data := bigRequest(size.snapshots, size.snapshot, size.fields)
		b.Run(size.name+"/decode", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decoder.Sync(data); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(size.name+"/valid", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if !json.Valid(data) {
					b.Fatal("not JSON")
				}
			}
		})
	}
}
