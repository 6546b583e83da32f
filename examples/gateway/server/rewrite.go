package server

import (
	"github.com/cairnlog/cairn/codec"
)

// rewrite gives the messages inside compressed frames the timestamp of the frame where
// that is the log's (Options.RewriteTimestamps). Everything else stays byte for byte. It
// returns set itself if there is nothing to do.
func rewrite(set []byte) ([]byte, error) {
	var out []byte
	done := 0 // bytes of set that are in out
	for at := 0; at < len(set); {
		f, n, err := codec.ReadFrame(set[at:])
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		if f.Compression != codec.None && f.TimestampType == codec.LogAppendTime {
			out = append(out, set[done:at]...)
			if out, err = appendStamped(out, &f, set[at:at+n]); err != nil {
				return nil, err
			}
			done = at + n
		}
		at += n
	}
	if done == 0 {
		return set, nil
	}
	return append(out, set[done:]...), nil
}

// appendStamped appends a compressed frame anew. A reader gives its messages the frame's
// timestamp (SPEC 4.3); here they get it for good, the type bit with it.
func appendStamped(dst []byte, f *codec.Frame, frame []byte) ([]byte, error) {
	var inner []byte
	first := int64(-1)
	for m, err := range codec.Messages(frame) {
		if err != nil {
			return nil, err
		}
		if first < 0 {
			first = m.Offset
		}
		m.Offset -= first
		inner = codec.AppendMessageFrame(inner, &m, f.Magic)
	}
	var err error
	if f.Value, err = f.Compression.Compress(nil, inner, f.Magic); err != nil {
		return nil, err
	}
	return codec.AppendFrame(dst, f), nil
}
