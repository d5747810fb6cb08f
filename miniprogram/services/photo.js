/**
 * Photos on the phone: choosing one, and making of it the small JPEG that is sent and kept. It sends nothing.
 */
const { Failure } = require('./request')

/** Longest side in pixels: the network looks at 299 x 299, so more would only cost the user's data. */
const LONGEST_SIDE = 640

/** JPEG qualities tried in turn until the photo is small enough. */
const QUALITIES = [78, 64, 50]
const ENOUGH_BYTES = 60 * 1000

/** base64 writes three bytes as four characters. */
const BYTES_PER_CHARACTER = 3 / 4

/**
 * Asks the user for a photo.
 * @param {('camera' | 'album')[]} sources
 * @returns {Promise<string | null>}  temporary file, or null when the user thought better of it
 */
async function choose(sources) {
  try {
    const { tempFiles } = await wx.chooseMedia({
      count: 1,
      mediaType: ['image'],
      sourceType: sources,
      sizeType: ['compressed'],
    })
    return tempFiles[0].tempFilePath
  } catch (error) {
    if (/cancel/.test(error.errMsg)) return null
    throw error
  }
}

/**
 * @param {string} path
 * @returns {Promise<{path: string, base64: string}>}  an upright JPEG, longest side at most 640; base64 in the standard
 *   alphabet. A photo this phone cannot decode (HEIC in some browsers), or that lies on its side where the phone would
 *   forget that (compressImage drops EXIF), stays as it is: the server knows more formats and turns it upright.
 */
async function prepare(path) {
  const size = await uprightSize(path)
  if (!size) return { path, base64: await readBase64(path) }
  for (const quality of QUALITIES) {
    const small = await shrink(path, size, quality)
    if (small.base64.length * BYTES_PER_CHARACTER <= ENOUGH_BYTES || quality === QUALITIES[QUALITIES.length - 1])
      return small
  }
}

/** Width and height after shrinking, or null when the photo must stay as it is. */
async function uprightSize(path) {
  try {
    const { width, height, orientation } = await wx.getImageInfo({ src: path })
    if (orientation && orientation !== 'up') return null
    const scale = Math.min(1, LONGEST_SIDE / Math.max(width, height))
    return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) }
  } catch (undecodable) {
    return null
  }
}

async function shrink(src, { width, height }, quality) {
  const { tempFilePath } = await wx.compressImage({ src, quality, compressedWidth: width, compressedHeight: height })
  return { path: tempFilePath, base64: await readBase64(tempFilePath) }
}

/** @returns {Promise<string>} */
function readBase64(filePath) {
  return new Promise((resolve, reject) => {
    wx.getFileSystemManager().readFile({
      filePath,
      encoding: 'base64',
      success: ({ data }) => resolve(String(data)),
      fail: () => reject(new Failure('photoGone')),
    })
  })
}

module.exports = { choose, prepare }
