package keys

// AppendProducer appends the key of what a partition remembers of a producer:
// its last sets, by which a repeated one is known. A producer's name may hold any
// bytes; it ends the key.
func AppendProducer(dst []byte, p Partition, producer string) []byte {
	return append(appendPartition(dst, spaceProducers, p), producer...)
}

// DecodeProducer takes a key of AppendProducer apart. The error is an
// ErrMalformed.
func DecodeProducer(key []byte) (p Partition, producer string, err error) {
	if len(key) < partitionSize || key[0] != spaceProducers {
		return Partition{}, "", malformed("producers", key)
	}
	return readPartition(key[1:]), string(key[partitionSize:]), nil
}
