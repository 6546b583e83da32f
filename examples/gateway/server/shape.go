package server

import (
	"encoding/binary"
	"errors"
	"strings"
)

// maxElements bounds the array elements of one request. The decoder makes up to 100
// bytes of each before it has read one, and this is what a request may cost beyond its own
// length.
const maxElements = 100_000

var (
	errShort    = errors.New("it ends too early")
	errElements = errors.New("it has too many elements")
)

// checkShape walks over the body of a request before it is decoded and refuses one
// whose lengths do not add up. A shape has a letter for each field: h, i and q an
// integer of 2, 4 and 8 bytes, b bytes, s a string, c a compact string, t tagged
// fields; [ and ] stand around the fields of an array's element.
func checkShape(shape string, b []byte) error {
	_, err := walk(shape, b)
	return err
}

// walk returns what follows the fields of a shape.
func walk(shape string, b []byte) ([]byte, error) {
	w := walker{b: b, left: maxElements}
	if err := w.fields(shape); err != nil {
		return nil, err
	}
	return w.b, nil
}

type walker struct {
	b    []byte
	left int // elements
}

func (w *walker) fields(shape string) (err error) {
	for i := 0; i < len(shape) && err == nil; i++ {
		if shape[i] != '[' {
			err = w.field(shape[i])
			continue
		}
		element := shape[i+1 : closing(shape, i)]
		err = w.array(element)
		i += len(element) + 1
	}
	return err
}

// closing returns the place of the bracket that closes the one at i.
func closing(shape string, i int) int {
	depth := 0
	for j := i; ; j++ {
		depth += strings.Count(shape[j:j+1], "[") - strings.Count(shape[j:j+1], "]")
		if depth == 0 {
			return j
		}
	}
}

func (w *walker) array(element string) error {
	if len(w.b) < 4 {
		return errShort
	}
	n := int(int32(binary.BigEndian.Uint32(w.b)))
	w.b = w.b[4:]
	if n > w.left {
		return errElements
	}
	w.left -= max(n, 0) // -1 is a null array
	for range n {
		if err := w.fields(element); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) field(kind byte) error {
	switch kind {
	case 'h':
		return w.skip(2)
	case 'i':
		return w.skip(4)
	case 'q':
		return w.skip(8)
	case 's':
		if len(w.b) < 2 {
			return errShort
		}
		return w.skip(2 + max(0, int(int16(binary.BigEndian.Uint16(w.b)))))
	case 'b':
		if len(w.b) < 4 {
			return errShort
		}
		return w.skip(4 + max(0, int(int32(binary.BigEndian.Uint32(w.b)))))
	case 'c':
		n, err := w.uvarint()
		if err != nil || n == 0 {
			return err
		}
		return w.skip(n - 1)
	default:
		return w.tags()
	}
}

func (w *walker) tags() error {
	n, err := w.uvarint()
	if err != nil {
		return err
	}
	if n > w.left {
		return errElements
	}
	w.left -= n
	for range n {
		if _, err := w.uvarint(); err != nil {
			return err
		}
		size, err := w.uvarint()
		if err == nil {
			err = w.skip(size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// uvarint reads a length, which is at most what an int32 holds.
func (w *walker) uvarint() (int, error) {
	n, size := binary.Uvarint(w.b)
	if size <= 0 || n > 1<<31-1 {
		return 0, errShort
	}
	w.b = w.b[size:]
	return int(n), nil
}

func (w *walker) skip(n int) error {
	if n > len(w.b) {
		return errShort
	}
	w.b = w.b[n:]
	return nil
}
