-- Reads the holders of all locks whose code begins with a prefix, or of one lock.
-- KEYS  index
-- ARGV  prefix of the lock keys, code of a name or of its prefix, 'exact' or 'prefix'
-- Returns a list of {code, value, ms left}
-- The lock keys are built here; they share the index's hash tag, hence its slot.
local codes
if ARGV[3] == 'exact' then
  codes = {ARGV[2]}
else
  codes = redis.call('ZRANGE', KEYS[1], 0, -1)
end
local found = {}
for _, code in ipairs(codes) do
  if string.sub(code, 1, #ARGV[2]) == ARGV[2] then
    local key = ARGV[1] .. code
    local held = redis.call('GET', key)
    if held then
      found[#found + 1] = {code, held, redis.call('PTTL', key)}
    end
  end
end
return found
