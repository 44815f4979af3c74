-- Takes a free lock, or confirms one that this attempt already took (a resent
-- script must not fail, nor count twice).
-- KEYS  lock, fence, index
-- ARGV  owner, TTL in ms, note, code of the name, life of the fence in ms, '1': plain counter
-- Returns {1, token} | {0, ms left, owner, token, note, since in ms} | {-1}: foreign key
local call = redis.call
local owner = call('HGET', KEYS[1], 'o')
local now = call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
local ttl = tonumber(ARGV[2])

if owner == ARGV[1] then
  call('PEXPIRE', KEYS[1], ttl)
  call('ZADD', KEYS[3], ms + ttl, ARGV[4])
  return {1, call('HGET', KEYS[1], 't')}
end
if owner then
  local h = call('HMGET', KEYS[1], 't', 'n', 's')
  return {0, call('PTTL', KEYS[1]), owner, h[1] or '0', h[2] or '', h[3] or '0'}
end
if call('EXISTS', KEYS[1]) == 1 then
  return {-1}
end

-- The token rises also when the counter was lost: then it starts again at the
-- server's time in microseconds, above every number given before. Below 2^53 until
-- the year 2255, so doubles are exact. SET tells the last one, which is seldom ahead.
local token = now[1] * 1000000 + now[2]
if ARGV[6] == '1' then token = 1 end -- a plain counter, for the tests of this safeguard
local t = string.format('%.0f', token)
local last = tonumber(call('SET', KEYS[2], t, 'PX', ARGV[5], 'GET') or '0')
if token <= last then
  t = string.format('%.0f', last + 1)
  call('SET', KEYS[2], t, 'PX', ARGV[5])
end
call('HSET', KEYS[1], 'o', ARGV[1], 't', t, 'n', ARGV[3], 's', ms)
call('PEXPIRE', KEYS[1], ttl)
call('ZADD', KEYS[3], ms + ttl, ARGV[4])
if now[2] % 64 == 0 then -- now and then: what vanished holders left in the index
  call('ZREMRANGEBYSCORE', KEYS[3], '-inf', ms - 60000)
end
return {1, t}
