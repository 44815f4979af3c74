-- Brings the sale's state and window, as the operator set them in the ledger, to
-- an open gate. Level-triggered: an older revision than the gate's changes nothing.
--
-- KEYS gate
-- ARGV epoch revision sale starts ends (ms; ends 0: none)
local gate, refusal = open_gate(KEYS[1], ARGV[1], 'revision')
if not gate then return refusal end
if tonumber(ARGV[2]) > tonumber(gate[4]) then
  redis.call('HSET', KEYS[1], 'revision', ARGV[2], 'sale', ARGV[3], 'starts', ARGV[4], 'ends', ARGV[5])
  redis.call('HINCRBY', KEYS[1], 'version', 1)
end
return {'open', gate[1]}
